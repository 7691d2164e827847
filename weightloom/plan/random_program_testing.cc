#include "weightloom/plan/random_program_testing.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "weightloom/base/checked.h"
#include "weightloom/base/file.h"
#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/lower_internal.h"

namespace weightloom::testing {
namespace {

class Maker {
 public:
  Maker(uint64_t seed, int64_t scale, const std::string& folder, bool with_nodes)
      : random_(seed), scale_(scale), folder_(folder), with_nodes_(with_nodes) {}

  RandomProgram make() {
    result_.files.resize(static_cast<size_t>(pick(1, 3)));
    for (Bytes& file : result_.files) file = noise(pick(0, 9));
    const int64_t count = pick(1, 6);
    for (int64_t i = 0; i < count; ++i) add_targets(i);
    std::vector<ProgramFile> files;
    for (size_t i = 0; i < result_.files.size(); ++i) {
      const std::string name = std::to_string(i);
      files.push_back({name, join_path(folder_, name), {}});
    }
    result_.program =
        CopyProgram(std::move(files), std::move(sources_), std::move(targets_), std::move(nodes_));
    return std::move(result_);
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random_);
  }

  Bytes noise(int64_t size) {
    Bytes bytes(static_cast<size_t>(size));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(pick(0, 255));
    return bytes;
  }

  Shape random_shape() {
    Shape shape(static_cast<size_t>(pick(0, 3)));
    for (int64_t& n : shape) n = pick(0, 20) == 0 ? 0 : pick(1, scale_);
    return shape;
  }

  /// A source of a casting target has any castable dtype, its target's too.
  Layout new_source(const Shape& shape) {
    const bool is_matrix = shape.size() >= 2 && elements(shape) > 0;
    if (with_nodes_ && casting_ && is_matrix && pick(0, 1) == 0) return decoded(shape);
    return stored(shape, casting_ ? kCastable[pick(0, 3)] : dtype_);
  }

  /// FP8, or pairs of nibbles, in small blocks that do not divide the dims.
  BlockCodec random_codec(bool encodes) {
    BlockCodec codec;
    if (pick(0, 1) == 0) {
      codec.code_dtype = pick(0, 1) == 0 ? DType::F8_E4M3 : DType::F8_E5M2;
      codec.scale_dtype = encodes || pick(0, 1) == 0 ? DType::F32 : DType::BF16;
      codec.block_rows = pick(1, 4);
      codec.block_cols = pick(1, 5);
    } else {
      codec.format = BlockFormat::e2m1;
      codec.code_dtype = DType::U8;
      codec.scale_dtype = DType::U8;
      codec.block_cols = 2 * pick(1, 3);
    }
    return codec;
  }

  /// The shape of an operand of values of `shape`.
  static Shape operand_shape(const CodecOperand& operand, Shape shape) {
    const size_t rows = shape.size() - 2;
    shape[rows] = ceil_div(shape[rows], operand.rows.values) * operand.rows.elements;
    shape[rows + 1] = ceil_div(shape[rows + 1], operand.cols.values) * operand.cols.elements;
    return shape;
  }

  Layout decoded(const Shape& shape) {
    ProgramNode node{random_codec(false), false, shape, {}};
    for (const CodecOperand& operand : operands_of(node.codec)) {
      const Shape of_operand = operand_shape(operand, shape);
      node.inputs.push_back(
          lowered("operand", operand.dtype, stored(of_operand, operand.dtype), -1));
    }
    nodes_.push_back(std::move(node));
    return computed("decoded", DType::F32, shape, 0);
  }

  /// A result of the last node.
  Layout computed(std::string name, DType dtype, const Shape& shape, int32_t result) {
    const auto id = static_cast<SourceId>(sources_.size());
    sources_.push_back({std::move(name), dtype, shape, -1, 0, *checked_bytes(dtype, shape),
                        static_cast<int32_t>(nodes_.size()) - 1, result});
    return identity(id, shape);
  }

  /// Codes and scales of a layout's values, as a family, whole or in part.
  void add_encoded(const std::string& name, Layout values, int32_t family) {
    ProgramNode node{random_codec(true), true, values.shape(), {}};
    const Shape shape = values.shape();
    node.inputs.push_back(lowered("values", DType::F32, std::move(values), -1));
    nodes_.push_back(node);
    int32_t result = 0;
    for (const CodecOperand& operand : operands_of(node.codec)) {
      const Shape of_operand = operand_shape(operand, shape);
      Layout made = computed(name, operand.dtype, of_operand, result);
      if (pick(0, 3) == 0) made = permuted(made);
      const int64_t rows = made.shape()[0];
      if (pick(0, 3) == 0) made = slice(made, 0, pick(0, rows / 2), rows);
      targets_.push_back(
          lowered(name + "." + std::to_string(result++), operand.dtype, std::move(made), family));
    }
  }

  Layout stored(const Shape& shape, DType dtype) {
    const auto file = static_cast<int32_t>(pick(0, std::ssize(result_.files) - 1));
    Bytes& bytes = result_.files[static_cast<size_t>(file)];
    const int64_t size = *checked_bytes(dtype, shape);
    const auto id = static_cast<SourceId>(sources_.size());
    sources_.push_back(
        {"s" + std::to_string(id), dtype, shape, file, static_cast<int64_t>(bytes.size()), size});
    const Bytes data = noise(size);
    bytes.insert(bytes.end(), data.begin(), data.end());
    if (pick(0, 3) == 0) bytes.push_back(std::byte{0x5a});  // odd alignment for the next one
    return identity(id, shape);
  }

  Layout step(Layout layout) {
    const int rank = layout.rank();
    if (rank == 0) return layout;
    const auto dim = static_cast<int>(pick(0, rank - 1));
    const int64_t n = layout.shape()[static_cast<size_t>(dim)];
    switch (pick(0, 6)) {
      case 0:
        return permuted(layout);
      case 1: {
        const int64_t begin = pick(0, n / 3);
        return slice(layout, dim, begin, n - pick(0, (n - begin) / 3));
      }
      case 2:
        return concat(std::vector<Layout>{layout, new_source(layout.shape())}, dim);
      case 3:
        return stack(std::vector<Layout>{new_source(layout.shape()), layout}, dim);
      case 4:
        return n % 2 == 0 ? interleave(layout, dim, 2, pick(0, 1) == 1) : layout;
      case 5:
        return pad(layout, dim, pick(0, 1), pick(0, 2));
      default:
        return reshape(layout, {layout.size()});
    }
  }

  Layout permuted(const Layout& layout) {
    std::vector<int> order(static_cast<size_t>(layout.rank()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return permute(layout, order);
  }

  /// One target, or a family of them.
  void add_targets(int64_t number) {
    constexpr DType kTypes[] = {DType::U8, DType::BF16, DType::F32, DType::F64, DType::BOOL};
    casting_ = pick(0, 2) == 0;
    dtype_ = casting_ ? kCastable[pick(0, 3)] : kTypes[pick(0, 4)];
    Layout layout = new_source(random_shape());
    for (int64_t steps = pick(0, 5); steps > 0; --steps) layout = step(std::move(layout));
    const std::string name = "t" + std::to_string(number);
    const bool is_matrix = layout.rank() >= 2 && layout.size() > 0;
    if (with_nodes_ && casting_ && is_matrix && pick(0, 1) == 0) {
      return add_encoded(name, std::move(layout), static_cast<int32_t>(number));
    }
    if (pick(0, 2) > 0) return add_target(name, std::move(layout), -1);
    std::vector<Layout> members = members_of(layout);
    for (size_t i = 0; i < members.size(); ++i) {
      add_target(name + "." + std::to_string(i), std::move(members[i]),
                 static_cast<int32_t>(number));
    }
  }

  /// Parts of a tensor along one of its dims, unequal ones and empty ones too; some of them twice.
  std::vector<Layout> members_of(const Layout& whole) {
    std::vector<Layout> members{whole};
    if (whole.rank() > 0 && pick(0, 4) > 0) {
      members.clear();
      const auto dim = static_cast<int>(pick(whole.rank() > 1 ? 1 : 0, whole.rank() - 1));
      const int64_t n = whole.shape()[static_cast<size_t>(dim)];
      const int64_t most = std::max<int64_t>(pick(1, n / 2 + 1), 1);
      for (int64_t begin = 0; begin < n; begin += most) {
        members.push_back(slice(whole, dim, begin, std::min(begin + most, n)));
        if (members.size() == 5) break;
      }
      if (pick(0, 2) == 0) members.push_back(slice(whole, dim, n, n));
    }
    if (!members.empty() && pick(0, 2) == 0) members.push_back(members.front());
    return members;
  }

  void add_target(std::string name, Layout layout, int32_t family) {
    targets_.push_back(lowered(std::move(name), dtype_, std::move(layout), family));
  }

  ProgramTarget lowered(std::string name, DType dtype, Layout layout, int32_t family) const {
    ProgramTarget target{std::move(name), dtype, layout.shape(), 0, {}, true, false};
    target.family = family;
    target.size_bytes = *checked_bytes(dtype, layout.shape());
    const auto source_dtype = [this](SourceId id) {
      return sources_[static_cast<size_t>(id)].dtype;
    };
    target.regions = lower_to_bytes(std::move(layout), dtype, source_dtype).regions;
    for (const Region& region : target.regions) {
      const bool casts = !region.is_pad() && source_dtype(region.source) != dtype;
      target.has_casts = target.has_casts || casts;
    }
    for (size_t i = 1; i < target.regions.size(); ++i) {
      const Region& before = target.regions[i - 1];
      target.disjoint_hulls = target.disjoint_hulls && before.target_offset + target_span(before) <
                                                           target.regions[i].target_offset;
    }
    return target;
  }

  std::mt19937_64 random_;
  int64_t scale_;
  const std::string& folder_;
  bool with_nodes_;
  static constexpr DType kCastable[] = {DType::F64, DType::F32, DType::F16, DType::BF16};
  DType dtype_ = DType::U8;
  bool casting_ = false;
  RandomProgram result_;
  std::vector<ProgramSource> sources_;
  std::vector<ProgramTarget> targets_;
  std::vector<ProgramNode> nodes_;
};

Sharding random_sharding(SeededDraw& draw, const Mesh& mesh, int64_t rank) {
  Sharding sharding;
  for (const MeshAxis& axis : mesh.axes()) {
    if (rank == 0 || draw(4) == 0) continue;
    const int dim = static_cast<int>(draw(rank));
    if (draw(5) == 0) sharding.steps.push_back(PadStep{dim, 1 + draw(3)});
    CutStep step{axis.name, dim};
    step.cut.stripes = draw(3) == 0 ? 2 : 1;
    if (draw(3) == 0) step.cut.rule = CutRule::balanced;
    sharding.steps.push_back(step);
  }
  return sharding;
}

}  // namespace

Bytes RandomProgram::source_bytes(const ProgramSource& source) const {
  const Bytes& file = files[static_cast<size_t>(source.file)];
  const auto begin = file.begin() + source.offset_bytes;
  return {begin, begin + source.size_bytes};
}

std::vector<Bytes> RandomProgram::expected() const {
  return interpret(program, [this](const ProgramSource& source) { return source_bytes(source); });
}

RandomProgram random_program(uint64_t seed, int64_t scale, const std::string& folder) {
  return Maker(seed, scale, folder, false).make();
}

RandomProgram random_program_with_nodes(uint64_t seed, int64_t scale, const std::string& folder) {
  return Maker(seed, scale, folder, true).make();
}

Spread random_spread(uint64_t seed, const CopyProgram& program) {
  SeededDraw draw(seed);
  const std::vector<const char*> texts = {"a=2", "a=3,b=2", "a=2,b=2,c=2"};
  Spread spread{MeshSet::parse(texts[static_cast<size_t>(draw(3))]), {}};
  for (const ProgramTarget& target : program.targets()) {
    spread.shardings.push_back(
        random_sharding(draw, spread.meshes.first(), std::ssize(target.shape)));
  }
  return spread;
}

CopyProgram write_sources(const RandomProgram& random) {
  std::vector<ProgramFile> files(random.program.files().begin(), random.program.files().end());
  for (size_t i = 0; i < files.size(); ++i) {
    File::create(system_calls(), files[i].path).write_at(random.files[i], 0);
    files[i].status = *status_of(system_calls(), files[i].path);
  }
  return CopyProgram(std::move(files),
                     {random.program.sources().begin(), random.program.sources().end()},
                     {random.program.targets().begin(), random.program.targets().end()},
                     {random.program.nodes().begin(), random.program.nodes().end()});
}

}  // namespace weightloom::testing
