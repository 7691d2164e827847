/** @file
   Weightloom for C and for every language that can call C: open a checkpoint, plan, load into the
   caller's buffers, convert.

     wl_checkpoint* source = NULL;
     wl_plan* plan = NULL;
     wl_error* error = NULL;
     wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
     options.to = "runtime";
     if (wl_checkpoint_open("Mixtral-8x7B", 0, &source, &error) != WL_OK ||
         wl_plan_create(source, &options, &plan, &error) != WL_OK ||
         wl_plan_load_into(plan, buffers, count, NULL, NULL, &error) != WL_OK) {
       fprintf(stderr, "%s\n", wl_error_message(error));
     }

   Results. A function that can fail returns a wl_status, 0 for success, and takes a `wl_error**`
   last. That may be NULL. On failure it gets an error that the caller frees; on success NULL. What
   it held before is overwritten, not freed. After a failure all other results are NULL or as they
   were. No C++ exception leaves a function.

   Ownership. Handles are made by ..._open and ..._create and freed by ..._free, which takes the
   address of the handle and sets it to NULL, so that a second call does nothing. Handles may be
   freed in any order: a plan keeps what it needs of its checkpoint. Every `const char*` that a
   function returns or a wl_tensor holds belongs to the handle it came from and lives as long.
   Nothing given to a function is kept when it has returned. Strings are UTF-8 and end in NUL.

   Threads. Handles never change once made: any number of threads may use one at once. Free a handle
   only when no other thread uses it. Errors are separate objects; there is no hidden state.

   Stability. Functions, constants and members keep their meaning and order; structures grow at
   their end only. Each begins with `struct_size`, which the ..._DEFAULT macros set, so that a
   program built with an older header goes on working with a newer library. An older library refuses
   a structure whose additional members are not zero. */
#pragma once

#include <stddef.h> /* NOLINT: this is a header for C */
#include <stdint.h> /* NOLINT: this is a header for C */

#include "weightloom/base/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A function of the C interface. */
#define WL_API WEIGHTLOOM_EXPORT

/** How a call ended. */
typedef enum wl_status {
  WL_OK = 0,                 /**< done */
  WL_ERROR_USAGE = 1,        /**< an argument makes no sense: NULL, an index out of range, a word */
  WL_ERROR_FORMAT = 2,       /**< a file is not what its format says */
  WL_ERROR_CHECKPOINT = 3,   /**< the files are well formed but do not make one checkpoint */
  WL_ERROR_MAPPING = 4,      /**< a mapping is wrong or unknown */
  WL_ERROR_PLAN = 5,         /**< the plan is refused by its findings */
  WL_ERROR_NOT_FOUND = 6,    /**< a path does not exist */
  WL_ERROR_EXISTS = 7,       /**< the destination exists and may not be replaced */
  WL_ERROR_PERMISSION = 8,   /**< the system refused access */
  WL_ERROR_NO_SPACE = 9,     /**< the disk, quota or file size limit is too small */
  WL_ERROR_IO = 10,          /**< the system failed a read or write */
  WL_ERROR_CANCELLED = 11,   /**< a callback asked to stop */
  WL_ERROR_UNSUPPORTED = 12, /**< well formed, but outside what this release does */
  WL_ERROR_NO_MEMORY = 13    /**< memory is used up */
} wl_status;

/** Why a call failed. */
typedef struct wl_error wl_error;
/** An open checkpoint: headers and index, no file stays open. */
typedef struct wl_checkpoint wl_checkpoint;
/** A compiled conversion, with everything that was found wrong. */
typedef struct wl_plan wl_plan;

/** Version of the library: "MAJOR.MINOR.PATCH". Never freed. */
WL_API const char* wl_version(void);

/* -------------------------------------------------------------------------------- errors -- */

/** What kind of failure; WL_OK for NULL. */
WL_API wl_status wl_error_status(const wl_error* error);
/** The kind as a word, as in the command's JSON: "not_found"; "" for NULL. */
WL_API const char* wl_error_code(const wl_error* error);
/** One sentence: where, what, found, needed; "" for NULL. */
WL_API const char* wl_error_message(const wl_error* error);
/** What the user can do about it; "" when there is nothing better than the sentence. */
WL_API const char* wl_error_next_step(const wl_error* error);
/** `[{"severity", "code", "tensor", "file", "message"}, ...]`: all that was found wrong. */
WL_API const char* wl_error_findings_json(const wl_error* error);
/** Frees an error; `error` and `*error` may be NULL. */
WL_API void wl_error_free(wl_error** error);

/* --------------------------------------------------------------------------- checkpoints -- */

/** A tensor of a checkpoint, or a target of a plan. */
typedef struct wl_tensor {
  size_t struct_size;   /**< sizeof(wl_tensor), set by the caller */
  const char* name;     /**< the whole name */
  const char* dtype;    /**< spelled as safetensors does: "BF16", "F8_E4M3" */
  const int64_t* shape; /**< `rank` sizes */
  int64_t rank;         /**< number of dimensions */
  int64_t size_bytes;   /**< size of its data */
} wl_tensor;

/** A wl_tensor to be filled. */
#define WL_TENSOR_DEFAULT {sizeof(wl_tensor), NULL, NULL, NULL, 0, 0}

/** Opens a folder, a .safetensors file or a .safetensors.index.json. Reads headers only, on up to
    `threads` threads; 0 means as many as suit the machine. */
WL_API wl_status wl_checkpoint_open(const char* path, int32_t threads, wl_checkpoint** checkpoint,
                                    wl_error** error);
/** Frees a checkpoint; `checkpoint` and `*checkpoint` may be NULL. */
WL_API void wl_checkpoint_free(wl_checkpoint** checkpoint);
/** Number of tensors; -1 for NULL. */
WL_API int64_t wl_checkpoint_tensor_count(const wl_checkpoint* checkpoint);
/** Fills `tensor` with tensor `index`, counted from 0 in the order of names. */
WL_API wl_status wl_checkpoint_tensor(const wl_checkpoint* checkpoint, int64_t index,
                                      wl_tensor* tensor, wl_error** error);
/** Index of the tensor called `name`; -1 if there is none. */
WL_API int64_t wl_checkpoint_find(const wl_checkpoint* checkpoint, const char* name);
/** What was found and does not refuse, as wl_error_findings_json; "[]" for NULL. */
WL_API const char* wl_checkpoint_findings_json(const wl_checkpoint* checkpoint);

/* --------------------------------------------------------------------------------- plans -- */

/** What is asked of a conversion. Zero and NULL mean the default. */
typedef struct wl_plan_options {
  size_t struct_size;         /**< sizeof(wl_plan_options) */
  const char* mapping;        /**< "auto" (default), "none", a name, or a path that ends in .json */
  const char* from;           /**< "auto" (default), "hub" or "runtime": what the source holds */
  const char* to;             /**< "same" (default), "hub" or "runtime": what is wanted */
  const char* const* include; /**< globs; only targets whose name matches one */
  size_t include_count;       /**< number of `include` */
  const char* const* exclude; /**< globs; no targets whose name matches one; wins */
  size_t exclude_count;       /**< number of `exclude` */
  int32_t lenient;            /**< not 0: let pass source tensors that no target uses */
  int32_t threads;            /**< to plan with; 0: as many as suit the machine */
  const char* architecture;   /**< class that is to hold the model; NULL: config.json's first */
  const char* dtype;          /**< "keep" (default), "BF16", "F16", "F32" or "F64": cast to it */
  const char* const* keep_dtype; /**< globs; targets whose name matches one are not cast */
  size_t keep_dtype_count;       /**< number of `keep_dtype` */
  const char* const* renames;    /**< "REGEX=TEXT", in order, on names before any mapping */
  size_t rename_count;           /**< number of `renames` */
} wl_plan_options;

/** Nothing asked for but the checkpoint as it is. */
#define WL_PLAN_OPTIONS_DEFAULT \
  {sizeof(wl_plan_options), NULL, NULL, NULL, NULL, 0, NULL, 0, 0, 0, NULL, NULL, NULL, 0, NULL, 0}

/** Compiles a conversion from headers alone. `options` may be NULL. What is wrong with the tensors
    refuses the plan and not this call: see wl_plan_is_refused. */
WL_API wl_status wl_plan_create(const wl_checkpoint* checkpoint, const wl_plan_options* options,
                                wl_plan** plan, wl_error** error);
/** Frees a plan; `plan` and `*plan` may be NULL. */
WL_API void wl_plan_free(wl_plan** plan);
/** 1 if its findings refuse it: it neither loads nor converts; 0 if not; -1 for NULL. */
WL_API int32_t wl_plan_is_refused(const wl_plan* plan);
/** All findings, as wl_error_findings_json; "[]" for NULL. */
WL_API const char* wl_plan_findings_json(const wl_plan* plan);
/** Number of targets; -1 for NULL. */
WL_API int64_t wl_plan_target_count(const wl_plan* plan);
/** Fills `tensor` with target `index`, counted from 0 in the order of names. */
WL_API wl_status wl_plan_target(const wl_plan* plan, int64_t index, wl_tensor* tensor,
                                wl_error** error);
/** Index of the target called `name`; -1 if there is none. */
WL_API int64_t wl_plan_find_target(const wl_plan* plan, const char* name);

/* ---------------------------------------------------------------------------------- runs -- */

/** How far a run is. */
typedef struct wl_progress {
  size_t struct_size;  /**< sizeof(wl_progress) of the library */
  int64_t bytes_done;  /**< of targets */
  int64_t bytes_total; /**< of targets */
  const char* tensor;  /**< one that was just worked on; lives until the callback returns */
} wl_progress;

/** Called after each piece of work, from the library's threads, never from two at once. A result
    other than 0 stops the run, which then fails with WL_ERROR_CANCELLED. */
typedef int32_t (*wl_progress_callback)(const wl_progress* progress, void* user);
/** Called when all bytes of target `index` are in place, as wl_progress_callback. */
typedef int32_t (*wl_complete_callback)(int64_t index, void* user);

/** How a run is made. Zero and NULL mean the default. */
typedef struct wl_run_options {
  size_t struct_size;            /**< sizeof(wl_run_options) */
  int32_t threads;               /**< workers; 1: in order on one; 0: as many as suit the machine */
  int64_t memory_budget_bytes;   /**< most memory for buffers; 0: 1 GiB, less on small machines */
  wl_progress_callback progress; /**< may be NULL */
  wl_complete_callback complete; /**< of wl_plan_load_into; may be NULL */
  void* user;                    /**< given to the callbacks */
} wl_run_options;

/** Defaults throughout. */
#define WL_RUN_OPTIONS_DEFAULT {sizeof(wl_run_options), 0, 0, NULL, NULL, NULL}

/** What a run did. */
typedef struct wl_statistics {
  size_t struct_size;    /**< sizeof(wl_statistics), set by the caller */
  int64_t bytes_read;    /**< from files */
  int64_t bytes_written; /**< to the targets */
} wl_statistics;

/** A wl_statistics to be filled. */
#define WL_STATISTICS_DEFAULT {sizeof(wl_statistics), 0, 0}

/** Memory of the caller. */
typedef struct wl_buffer {
  void* data;         /**< may be NULL where `size_bytes` is 0 */
  int64_t size_bytes; /**< exactly the size of its target */
} wl_buffer;

/** Loads target i into `buffers[i]`, for all `count` targets of the plan. `options` and
    `statistics` may be NULL. After a failure the contents of the buffers are undefined. */
WL_API wl_status wl_plan_load_into(const wl_plan* plan, const wl_buffer* buffers, size_t count,
                                   const wl_run_options* options, wl_statistics* statistics,
                                   wl_error** error);

/** How an output is written. Zero and NULL mean the default. */
typedef struct wl_output_options {
  size_t struct_size;      /**< sizeof(wl_output_options) */
  int64_t max_shard_bytes; /**< most bytes of tensors in one file; 0: 50 GB */
  const char* layout_from; /**< a folder or index whose split into files is copied */
  int32_t overwrite;       /**< not 0: the destination may exist, and is replaced in one step */
  int32_t resume;          /**< not 0: go on where a run that was killed stood */
  int32_t checksums;       /**< not 0: write a digest of each tensor beside them */
} wl_output_options;

/** One file up to 50 GB, and nothing is replaced. */
#define WL_OUTPUT_OPTIONS_DEFAULT {sizeof(wl_output_options), 0, NULL, 0, 0, 0}

/** Writes the plan's targets to `destination`, a folder, or one file when it ends in .safetensors.
    It is built beside its place and put there in one step: after a failure it is as it was.
    `output`, `options` and `statistics` may be NULL. */
WL_API wl_status wl_plan_convert(const wl_plan* plan, const char* destination,
                                 const wl_output_options* output, const wl_run_options* options,
                                 wl_statistics* statistics, wl_error** error);

#ifdef __cplusplus
}
#endif
