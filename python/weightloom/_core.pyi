"""
Weightloom's C++ library. Use the package weightloom, which is documented.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from numpy.typing import NDArray


DTYPES: list = ...

def default_memory_budget() -> int:
    """Bytes of working memory that a run takes when the caller does not say."""

def default_threads() -> int:
    """Threads that a run takes when the caller does not say."""

def parse_byte_size(text: str) -> int:
    """A number of bytes as people write it: '5GB', '256MiB', '1000'."""

class Finding:
    """One fact that a check found."""

    @property
    def severity(self) -> str:
        """'error', 'strict' (an error unless the caller is lenient) or 'report'."""

    @property
    def code(self) -> str:
        """A stable word, such as 'missing_source'."""

    @property
    def tensor(self) -> str:
        """The tensor's name, or ''."""

    @property
    def file(self) -> str:
        """The file's name, or ''."""

    @property
    def message(self) -> str:
        """A whole sentence with names and numbers."""

    def __eq__(self, arg: Finding, /) -> bool: ...

    def __repr__(self) -> str: ...

class Tensor:
    """
    A tensor in memory, row-major, which it keeps alive.

    It never passes for numbers of another type: what takes it must know its dtype, or say which view of its bits it wants.
    """

    @property
    def dtype(self) -> str:
        """As safetensors spells it: 'BF16'."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims, outermost first, in elements."""

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""

    @property
    def bytes(self) -> memoryview:
        """The data as bytes, without a copy; writable."""

    def numpy(self, view: str | None = None) -> Any:
        """
        An array on the same memory.

        Parameters
        ----------
        view : str, optional
            'uint8', 'uint16', 'uint32' or 'uint64', as wide as an element: its bits, whatever the dtype.

        Raises
        ------
        UnsupportedError
            If NumPy has no such dtype and no view is given.
        """

    def torch(self) -> Any:
        """
        A torch.Tensor on the same memory.

        Raises
        ------
        UnsupportedError
            If torch has no such dtype.
        """

    def __dlpack__(self, **kwargs) -> object:
        """DLPack's protocol; read and write."""

    def __dlpack_device__(self) -> tuple: ...

    def __array__(self, dtype: object | None = None, copy: object | None = None) -> object: ...

    def __repr__(self) -> str: ...

class TensorInfo:
    """A tensor of a checkpoint and where its bytes stand."""

    @property
    def name(self) -> str:
        """As its header spells it."""

    @property
    def dtype(self) -> str:
        """As safetensors spells it: 'BF16'."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims, outermost first."""

    @property
    def file(self) -> str:
        """Name of its file."""

    @property
    def offset(self) -> int:
        """Of its data in the file, in bytes."""

    @property
    def nbytes(self) -> int:
        """Size of its data in bytes."""

    def __repr__(self) -> str: ...

class Checkpoint:
    """
    A checkpoint, resolved from headers alone: a mapping of names, sorted, to TensorInfo.
    """

    @property
    def path(self) -> str:
        """As it was given."""

    @property
    def folder(self) -> str:
        """Where config.json is looked for."""

    @property
    def nbytes(self) -> int:
        """Size of all tensors' data in bytes."""

    @property
    def files(self) -> list[str]:
        """Names of its safetensors files, sorted."""

    @property
    def findings(self) -> list[Finding]:
        """Facts that only inform, such as files that were left out."""

    def metadata(self, file: str) -> dict[str, str]:
        """Header metadata of one of the files."""

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""

    def offset_keys(self) -> list[str]:
        """Names of the tensors, by file and offset."""

    def values(self) -> list[TensorInfo]:
        """What stands under each name."""

    def items(self) -> list[tuple[str, TensorInfo]]:
        """Names with what stands under them."""

    def get(self, name: str, default: object | None = None) -> object:
        """What stands under a name, or the default."""

    def __getitem__(self, name: str) -> TensorInfo: ...

    def __contains__(self, arg: object, /) -> bool: ...

    def __iter__(self) -> Iterator: ...

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

def open(path: str, threads: int = 1) -> Checkpoint:
    """Reads all headers of a .safetensors file, a folder or an index."""

def equal_bytes(a: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], b: Annotated[NDArray, dict(order='C', device='cpu', writable=False)]) -> bool:
    """True if two contiguous buffers hold the same bytes."""

def in_memory(tensors: Sequence[tuple[str, str, Sequence[int], object]], metadata: Sequence[tuple[str, str]], texts: Sequence[tuple[str, str]]) -> Checkpoint:
    """
    A checkpoint of (name, dtype, shape, contiguous buffer), whose memory is lent to it, with (name, text) of files beside it.
    """

def read_box(source: Checkpoint, name: str, begins: Sequence[int], ends: Sequence[int], framework: str) -> object:
    """
    Elements [begins[i], ends[i]) of each dim of a tensor; without bounds, all of it.
    """

class Expected:
    """The tensors that a runtime has places for."""

    def __init__(self, tensors: Sequence[tuple[str, str | None, Sequence[int] | None]]) -> None:
        """Of (name, dtype or None, shape or None)."""

    @property
    def base_model_prefix(self) -> str | None:
        """
        Put on or taken off where that leads to an expected name; None: the class's own.
        """

    @base_model_prefix.setter
    def base_model_prefix(self, arg: str | None, /) -> None: ...

    @property
    def may_miss(self) -> bool:
        """A tensor that nothing makes is but reported."""

    @may_miss.setter
    def may_miss(self, arg: bool, /) -> None: ...

    @property
    def may_mismatch(self) -> bool:
        """A tensor of another shape is left out, and reported."""

    @may_mismatch.setter
    def may_mismatch(self, arg: bool, /) -> None: ...

    @property
    def cast(self) -> bool:
        """Tensors get the expected dtypes, where they are castable."""

    @cast.setter
    def cast(self, arg: bool, /) -> None: ...

def read_expected(path: str) -> Expected:
    """From a JSON file or a checkpoint's headers."""

class OperationContext:
    """What an operation may know besides the tensors."""

    @property
    def targets(self) -> int:
        """How many target patterns there are."""

    @property
    def target_patterns(self) -> list[str]:
        """Of the converter."""

    def config(self, path: str) -> int | None:
        """
        An integer of config.json at a path of keys ('vision_config.num_heads'); None if there is none.
        """

class Layout:
    """
    Where each element of a tensor comes from. Operations are NumPy's of that name and give new layouts; nothing moves.
    """

    @staticmethod
    def identity(source: int, shape: Sequence[int]) -> Layout:
        """The tensor itself: a source by its number."""

    @staticmethod
    def constant(pad_value: int, shape: Sequence[int]) -> Layout:
        """A tensor of one small integer."""

    @staticmethod
    def concat(parts: Sequence[Layout], dim: int) -> Layout:
        """Shapes are equal but for `dim`, whose sizes add."""

    @staticmethod
    def stack(parts: Sequence[Layout], dim: int) -> Layout:
        """Shapes are equal; a new dim before `dim`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims, outermost first."""

    def reshape(self, shape: Sequence[int]) -> Layout:
        """Of equal size."""

    def slice(self, dim: int, begin: int, end: int) -> Layout:
        """Rows [begin, end) of a dim."""

    def permute(self, order: Sequence[int]) -> Layout:
        """Dim i of the result is dim order[i]."""

    def transpose(self, dim0: int, dim1: int) -> Layout:
        """Swaps two dims."""

    def unstack(self, dim: int) -> list[Layout]:
        """The parts along a dim, which disappears."""

    def split(self, dim: int, sizes: Sequence[int]) -> list[Layout]:
        """Consecutive parts of given sizes, which add up to the dim."""

    def interleave(self, dim: int, ways: int, inverse: bool = False) -> Layout:
        """De-interleaves a dim of n * ways: out[j * n + i] = in[ways * i + j]."""

    def pad(self, dim: int, before: int, after: int, pad_value: int = 0) -> Layout:
        """Rows of one small integer around a dim."""

    def __repr__(self) -> str: ...

class Registry:
    """Mappings by name and alias: the shipped ones, and more."""

    def __init__(self) -> None: ...

    def names(self) -> list[str]:
        """Names of the mappings, sorted, without aliases."""

    def is_plain(self, model_type: str) -> bool:
        """True for a model type that is known to need no mapping."""

    def json(self, name: str) -> str | None:
        """
        The mapping of a name or alias as the text of a mapping file; None if unknown.
        """

    def add_json(self, text: str, overwrite: bool = False) -> None:
        """
        Adds the mapping that the text of a mapping file holds, under its name and aliases.
        """

    def add_operation(self, name: str, parameters: Mapping[str, str], make: Callable) -> None:
        """
        Adds an operation that mappings may name: its parameters with their kinds ('int', 'bool', 'str', 'list' of str), and what makes a LayoutOperation of them.
        """

    def add_quantiser(self, quant_method: str, conversions: Callable[[str], str] | None, update: Callable[[str, str], str] | None, overwrite: bool = False) -> None:
        """
        Adds what a scheme of config.json does to rules. `conversions` makes the text of a mapping of config.json's; `update` makes one of the text of the whole mapping and config.json's.
        """

    def __contains__(self, arg: str, /) -> bool: ...

class KeyRenamer:
    """A transform's patterns, for one name at a time."""

    def __init__(self, json: str, registry: Registry | None) -> None: ...

    def rename(self, key: str) -> tuple[str, int | None]:
        """The new name, and the place of the source pattern that matched."""

def reversed_json(json: str, registry: Registry | None) -> str:
    """
    The mapping of one transform, as text, with the transform that undoes it.
    """

class TargetInfo:
    """A tensor that a plan makes."""

    @property
    def name(self) -> str:
        """In the wanted layout."""

    @property
    def dtype(self) -> str:
        """As safetensors spells it: 'BF16'."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims, outermost first."""

    @property
    def nbytes(self) -> int:
        """Size of its data in bytes."""

class Plan:
    """A conversion that was planned from headers; nothing moved yet."""

    @property
    def targets(self) -> list[TargetInfo]:
        """
        What would be made: of whole tensors, or the parts of the rank asked for.
        """

    @property
    def mesh(self) -> str:
        """The mesh that targets are spread over: 'fsdp=4,tp=2'; or ''."""

    @property
    def rank(self) -> int | None:
        """The rank whose parts are made, if one was asked for."""

    @property
    def manifest(self) -> str:
        """
        The text of layout.json: whole tensors, and how each is spread; '' without a mesh.
        """

    @property
    def findings(self) -> list[Finding]:
        """All that was found, of every severity."""

    @property
    def mapping(self) -> str:
        """Name of the mapping; 'none', 'plain' or 'unknown'."""

    @property
    def to(self) -> str:
        """Which layout would be made."""

    @property
    def tied(self) -> list[tuple[str, str]]:
        """
        Pairs of a name and the target's whose tensor it stands for: the same memory.
        """

    @property
    def fired(self) -> list[int]:
        """Places in the mapping of the transforms that fired."""

    @property
    def record(self) -> str:
        """The text of weightloom.json for what would be made."""

    @property
    def nbytes(self) -> int:
        """Size of all targets in bytes."""

    @property
    def is_refused(self) -> bool:
        """True if the findings refuse it."""

    def raise_if_refused(self) -> None:
        """Raises PlanError with all findings."""

    def load(self, *, threads: int | None = None, memory_budget: int | str | None = None, progress: Callable[[int, int, str], object] | None = None, complete: Callable[[str, Any], object] | None = None, framework: str = 'numpy') -> tuple[dict[str, Any], list[Finding]]:
        """
        Runs the plan into memory of its own: tensors by name, and findings of the run.

        All tensors lie in one arena, which each of them keeps alive. `progress` is called with bytes done, bytes in all and a tensor's name, `complete` with each name and tensor as soon as it is whole, both from the calling thread; what they raise stops the run.
        """

    def load_into(self, buffers: dict[str, Any], *, threads: int | None = None, memory_budget: int | str | None = None, progress: Callable[[int, int, str], object] | None = None, complete: Callable[[str], object] | None = None) -> list[Finding]:
        """
        Runs the plan into the caller's buffers, one per target: contiguous, writable memory of the CPU of the target's dtype, or bytes. Gives findings of the run. After an error their contents are undefined.
        """

    def stream(self, *, threads: int | None = None, memory_budget: int | str | None = None, framework: str = 'numpy') -> Stream:
        """
        Begins to run the plan, tensor by tensor, each in memory of its own. At most the budget is held in tensors that were not taken and in working memory together, but for one tensor larger than half of it.
        """

    def convert(self, destination: str, *, max_shard_bytes: int | None = None, layout_from: str | None = None, overwrite: bool = False, resume: bool = False, checksums: bool = False, drop_tied: bool = False, trust_replicas: bool = False, metadata: list[tuple[str, str]] | None = None, threads: int | None = None, memory_budget: int | str | None = None, progress: Callable[[int, int, str], object] | None = None) -> ConvertReport:
        """
        Runs the plan into a folder, or into a file that ends in .safetensors; durable, and in one step: after any error the destination is as it was.
        """

    def tied_findings(self, *, threads: int | None = None, memory_budget: int | str | None = None) -> list[Finding]:
        """
        Reads what config.json says is tied and the source stores twice: a finding for each pair whose values differ.
        """

    def check_replicas(self, *, threads: int | None = None, memory_budget: int | str | None = None) -> None:
        """
        Of a sharded source: reads the parts that several ranks hold, and raises CheckpointError with a finding for each copy that differs.
        """

    def only(self, names: Sequence[str]) -> Plan:
        """This plan for some of its targets."""

    def verbatim_of(self, name: str) -> str | None:
        """
        Name of the stored tensor that a target is, byte for byte; None if it is made of parts, or cast.
        """

    def held(self, tensors: Sequence[tuple[str, Sequence[int], Sequence[tuple[str, int]], Sequence[int], Sequence[tuple[str, int, int]]]]) -> tuple[Plan, list[Finding]]:
        """
        This plan for the parts of its targets that a rank holds, and findings on tensors that are left out. Of each tensor (name, local shape, [(axis, size)] of its mesh, where the rank stands along them, [(kind, dim, split factor)]); no axes: held whole.
        """

    def dtensors(self) -> list[tuple[str, str, list[int], list[tuple[str, int, int]] | None]]:
        """
        Of each target of a rank's plan (name, name of its mesh, whole shape, [(kind, dim, split factor)] along the mesh's axes); None where no placements of torch say how it lies.
        """

class Stream:
    """
    Names and tensors, each as soon as it is complete. Closing it, or leaving its `with` block, stops the run.
    """

    def __iter__(self) -> Stream: ...

    def __next__(self) -> tuple[str, Any]: ...

    def close(self) -> None:
        """Stops the run, and frees what was not taken."""

    @property
    def findings(self) -> list[Finding]:
        """After the last tensor: values that casts made infinite."""

    def __enter__(self) -> Stream: ...

    def __exit__(self, *args) -> None: ...

class ConvertReport:
    """What a conversion did. Sizes are in bytes."""

    @property
    def files(self) -> list[str]:
        """Safetensors files of the output, in order."""

    @property
    def files_written(self) -> int:
        """How many were written."""

    @property
    def files_linked(self) -> int:
        """How many are the source's own."""

    @property
    def files_copied(self) -> int:
        """How many the kernel copied."""

    @property
    def targets(self) -> int:
        """Tensors of the output."""

    @property
    def target_bytes(self) -> int:
        """Size of these tensors."""

    @property
    def bytes_needed(self) -> int:
        """Source bytes that reach a target."""

    @property
    def bytes_read(self) -> int:
        """Read for files that were written."""

    @property
    def bytes_written(self) -> int:
        """Of targets."""

    @property
    def peak_working_bytes(self) -> int:
        """Tiles and staging of all workers at once."""

    @property
    def resumed_bytes(self) -> int:
        """Made by an interrupted run."""

    @property
    def findings(self) -> list[Finding]:
        """All that is to be told."""

def plan(source: Checkpoint, *, mapping: str = 'auto', from_: str = 'auto', to: str = 'same', dtype: str | None = None, keep_dtype: Sequence[str] = [], include: Sequence[str] = [], exclude: Sequence[str] = [], architecture: str = '', renames: Sequence[tuple[str, str]] = [], lenient: bool = False, config_json: str | None = None, expected: Expected | None = None, mesh: str = '', rank: int | None = None, tp_plan: str | None = None, placements: str | None = None, load_specs: str | None = None, dequantize: bool = False, quantize: str = 'keep', registry: Registry | None = None, threads: int = 1) -> Plan:
    """Plans a conversion of a Checkpoint."""

class Selection:
    """What a caller asks of a conversion."""

    def __init__(self) -> None: ...

    @property
    def mapping(self) -> str:
        """'auto', 'none', a name, a path or JSON text."""

    @mapping.setter
    def mapping(self, arg: str, /) -> None: ...

    @property
    def to(self) -> str:
        """'same', 'hub' or 'runtime'."""

    @to.setter
    def to(self, arg: str, /) -> None: ...

    @property
    def dtype(self) -> str | None:
        """A castable dtype, or None."""

    @dtype.setter
    def dtype(self, arg: str | None, /) -> None: ...

    @property
    def keep_dtype(self) -> list[str]:
        """Globs that the cast does not touch."""

    @keep_dtype.setter
    def keep_dtype(self, arg: Sequence[str], /) -> None: ...

    @property
    def include(self) -> list[str]:
        """Globs over target names; none: all."""

    @include.setter
    def include(self, arg: Sequence[str], /) -> None: ...

    @property
    def exclude(self) -> list[str]:
        """Globs; wins over include."""

    @exclude.setter
    def exclude(self, arg: Sequence[str], /) -> None: ...

    @property
    def architecture(self) -> str:
        """The class; '': config.json's."""

    @architecture.setter
    def architecture(self, arg: str, /) -> None: ...

    @property
    def renames(self) -> list[tuple[str, str]]:
        """Pairs of pattern and text, run first."""

    @renames.setter
    def renames(self, arg: Sequence[tuple[str, str]], /) -> None: ...

    @property
    def dequantize(self) -> bool:
        """Codes and scales become values."""

    @dequantize.setter
    def dequantize(self, arg: bool, /) -> None: ...

    @property
    def quantize(self) -> str:
        """'keep', 'fp8-block' or 'mxfp4'."""

    @quantize.setter
    def quantize(self, arg: str, /) -> None: ...

    @property
    def lenient(self) -> bool:
        """Let pass what no target uses."""

    @lenient.setter
    def lenient(self, arg: bool, /) -> None: ...

class Difference:
    """One way in which two checkpoints differ."""

    @property
    def tensor(self) -> str:
        """Its name."""

    @property
    def code(self) -> str:
        """'only_in_a', 'only_in_b', 'dtype', 'shape', 'values'."""

    @property
    def message(self) -> str:
        """A whole sentence with numbers."""

class VerifyReport:
    """What was found of one or two checkpoints."""

    @property
    def equal(self) -> bool:
        """There are no differences."""

    @property
    def tensors(self) -> int:
        """How many were compared, or read."""

    @property
    def nbytes(self) -> int:
        """Their size in bytes."""

    @property
    def has_checksums(self) -> bool:
        """Of every tensor, compared."""

    @property
    def differences(self) -> list[Difference]:
        """By tensor."""

    @property
    def findings(self) -> list[Finding]:
        """Of the checkpoint, or of converting B."""

    def __bool__(self) -> bool: ...

class TensorDifference:
    """How a tensor differs."""

    @property
    def tensor(self) -> str:
        """Its name in A's layout."""

    @property
    def code(self) -> str:
        """As Difference's, or 'bits'."""

    @property
    def message(self) -> str:
        """A whole sentence with numbers."""

    @property
    def a(self) -> tuple[str, list[int]] | None:
        """dtype and shape in A; None: not there."""

    @property
    def b(self) -> tuple[str, list[int]] | None:
        """dtype and shape in B; None: not there."""

class DiffReport:
    """What a diff found."""

    @property
    def equal(self) -> bool:
        """There are no differences."""

    @property
    def tensors(self) -> int:
        """How many had their values compared."""

    @property
    def nbytes(self) -> int:
        """Their size in B, in bytes."""

    @property
    def differences(self) -> list[TensorDifference]:
        """By tensor."""

    @property
    def findings(self) -> list[Finding]:
        """Of bringing B to A's layout."""

    def __bool__(self) -> bool: ...

def verify_one(a: Checkpoint, threads: int | None, memory_budget: int | str | None, progress: object | None) -> VerifyReport:
    """Reads every byte, and compares with checksums where there are some."""

def verify_two(a: Checkpoint, b: Checkpoint, selection: Selection, registry: Registry | None, threads: int | None, memory_budget: int | str | None, progress: object | None) -> VerifyReport:
    """Brings B to A's layout and compares bit for bit."""

def diff(a: Checkpoint, b: Checkpoint, selection: Selection, registry: Registry | None, threads: int | None, memory_budget: int | str | None, progress: object | None) -> DiffReport:
    """Tensor by tensor, how two checkpoints differ."""

class ProcessGroup:
    """Ranks that exchange bytes; all make the same calls in the same order."""

    @property
    def rank(self) -> int:
        """This process's place."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def all_gather(self, mine: bytes) -> list[bytes]:
        """What each rank gives, by rank."""

    def broadcast(self, root: int, mine: bytes) -> bytes:
        """What `root` gives; all give as many bytes."""

    def all_reduce(self, reduction: str, values: Sequence[int]) -> list[int]:
        """
        Of each value the 'sum', 'min' or 'max' over all ranks, on all of them.
        """

    def send(self, to: int, tag: int, message: bytes) -> None:
        """One message, with a tag below 1024; may wait until it is received."""

    def recv(self, from_: int, tag: int, size: int) -> bytes:
        """The next message of a rank with this tag; of `size` bytes."""

    def barrier(self) -> None:
        """Returns when all ranks have called it."""

    def sub_group(self, ranks: Sequence[int]) -> ProcessGroup:
        """A group of some ranks; a call of those together."""

    def abort(self, reason: str) -> None:
        """
        Ends the group: whoever waits, or calls later, raises CancelledError with the reason.
        """

def python_group(transport: object) -> ProcessGroup:
    """
    A group over an object with rank, size, exchange(outgoing, incoming) and abort(reason).
    """

class ParallelSaveReport:
    """What a parallel save did. Sizes are in bytes."""

    @property
    def files(self) -> list[str]:
        """Safetensors files of the output, in order."""

    @property
    def targets(self) -> int:
        """Tensors of the output."""

    @property
    def target_bytes(self) -> int:
        """Size of these tensors."""

    @property
    def bytes_written(self) -> int:
        """Of targets, by this rank."""

    @property
    def bytes_sent(self) -> int:
        """By this rank to others, before they wrote."""

    @property
    def peak_working_bytes(self) -> int:
        """Tiles, staging and messages of this rank at once."""

    @property
    def findings(self) -> list[Finding]:
        """All that is to be told."""

class ParallelSave:
    """A save of what ranks hold together, planned."""

    def __init__(self, group: ProcessGroup, tensors: Sequence[tuple[str, str, Sequence[int], Sequence[int], Sequence[tuple[str, int]], Sequence[int], Sequence[tuple[str, int, int]], str]], *, texts: Sequence[tuple[str, str]], selection: Selection, sharded: bool, max_shard_bytes: int | None, layout_from: str | None, overwrite: bool, staged_bytes: int, fault: tuple[str, str] | None, registry: Registry | None, threads: int | None, memory_budget: int | str | None) -> None:
        """
        Plans, together with the other ranks. Of each tensor (name, dtype, shape, local shape, [(axis, size)], ranks of the mesh, [(kind, dim, split factor)], whose second name it is); `fault` is what went wrong here before, as (message, next step).
        """

    def save(self, tensors: list, buffers: dict, destination: str, fault: tuple[str, str] | None, progress: Callable[[int, int, str], object] | None) -> ParallelSaveReport:
        """Saves what the ranks hold now; `tensors` as they were planned."""

    @property
    def tied(self) -> list[tuple[str, str]]:
        """Pairs of a second name and the name of its tensor."""

    @property
    def findings(self) -> list[Finding]:
        """All that was found, of every severity."""

    @property
    def mapping(self) -> str:
        """Name of the mapping; 'none', 'plain' or 'unknown'."""
