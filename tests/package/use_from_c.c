/* Uses the C interface as a program of another house would: loads a checkpoint in its runtime
   layout, converts it to a folder, and finds the same bytes there. Then misuses it.

   usage: use_from_c CHECKPOINT OUTPUT-FOLDER */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weightloom/c_api.h"
#include "weightloom/version.h"

#define CHECK(condition) check((condition) != 0, #condition, __LINE__)

static void check(int holds, const char *condition, int line) {
  if (holds) return;
  fprintf(stderr, "use_from_c.c:%d: %s does not hold\n", line, condition);
  exit(1);
}

static void must(wl_status status, wl_error *error) {
  if (status == WL_OK) return;
  fprintf(stderr, "%s: %s; next: %s\n%s\n", wl_error_code(error), wl_error_message(error),
          wl_error_next_step(error), wl_error_findings_json(error));
  exit(1);
}

typedef struct {
  int64_t complete;
  int64_t bytes_done;
  int stop;
} Seen;

static int32_t on_progress(const wl_progress *progress, void *user) {
  Seen *seen = user;
  seen->bytes_done = progress->bytes_done;
  return seen->stop;
}

static int32_t on_complete(int64_t index, void *user) {
  Seen *seen = user;
  (void)index;
  seen->complete += 1;
  return 0;
}

static wl_plan *plan_of(const char *path, const char *to) {
  wl_checkpoint *source = NULL;
  wl_plan *plan = NULL;
  wl_error *error = NULL;
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.to = to;
  must(wl_checkpoint_open(path, 0, &source, &error), error);
  must(wl_plan_create(source, &options, &plan, &error), error);
  wl_checkpoint_free(&source); /* the plan keeps what it needs */
  CHECK(wl_plan_is_refused(plan) == 0);
  return plan;
}

static wl_buffer *load(const wl_plan *plan, const wl_run_options *options) {
  size_t count = (size_t)wl_plan_target_count(plan);
  wl_buffer *buffers = calloc(count, sizeof *buffers);
  wl_error *error = NULL;
  size_t i;
  for (i = 0; i < count; ++i) {
    wl_tensor target = WL_TENSOR_DEFAULT;
    must(wl_plan_target(plan, (int64_t)i, &target, &error), error);
    buffers[i].data = malloc((size_t)target.size_bytes);
    buffers[i].size_bytes = target.size_bytes;
  }
  must(wl_plan_load_into(plan, buffers, count, options, NULL, &error), error);
  return buffers;
}

static void release(wl_buffer *buffers, int64_t count) {
  int64_t i;
  for (i = 0; i < count; ++i) free(buffers[i].data);
  free(buffers);
}

static void loaded_and_converted_are_equal(const char *path, const char *folder) {
  Seen seen = {0, 0, 0};
  wl_run_options run = WL_RUN_OPTIONS_DEFAULT;
  wl_plan *plan = plan_of(path, "runtime");
  int64_t count = wl_plan_target_count(plan);
  wl_error *error = NULL;
  wl_plan *again;
  wl_buffer *first, *second;
  int64_t i;
  run.progress = on_progress;
  run.complete = on_complete;
  run.user = &seen;
  first = load(plan, &run);
  CHECK(seen.complete == count && seen.bytes_done > 0);
  must(wl_plan_convert(plan, folder, NULL, NULL, NULL, &error), error);
  again = plan_of(folder, NULL);
  CHECK(wl_plan_target_count(again) == count);
  second = load(again, NULL);
  for (i = 0; i < count; ++i) {
    CHECK(first[i].size_bytes == second[i].size_bytes);
    CHECK(memcmp(first[i].data, second[i].data, (size_t)first[i].size_bytes) == 0);
  }
  release(first, count);
  release(second, count);
  wl_plan_free(&again);
  wl_plan_free(&plan);
  printf("%ld targets are equal\n", (long)count);
}

static void misuse_is_answered(const char *path, const char *folder) {
  Seen seen = {0, 0, 1};
  wl_run_options run = WL_RUN_OPTIONS_DEFAULT;
  wl_plan *plan = plan_of(path, NULL);
  wl_error *error = NULL;
  wl_tensor target = WL_TENSOR_DEFAULT;
  CHECK(wl_plan_convert(plan, folder, NULL, NULL, NULL, &error) == WL_ERROR_EXISTS);
  CHECK(strcmp(wl_error_code(error), "exists") == 0 && wl_error_message(error)[0] != '\0');
  wl_error_free(&error);
  wl_error_free(&error);
  run.progress = on_progress;
  run.user = &seen;
  CHECK(wl_plan_convert(plan, "stopped.safetensors", NULL, &run, NULL, NULL) == WL_ERROR_CANCELLED);
  CHECK(wl_plan_target(plan, -1, &target, NULL) == WL_ERROR_USAGE);
  CHECK(wl_plan_load_into(plan, NULL, 0, NULL, NULL, NULL) == WL_ERROR_USAGE);
  CHECK(wl_checkpoint_tensor_count(NULL) == -1);
  wl_plan_free(&plan);
  wl_plan_free(&plan);
  CHECK(plan == NULL);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  CHECK(strcmp(wl_version(), WEIGHTLOOM_VERSION) == 0);
  loaded_and_converted_are_equal(argv[1], argv[2]);
  misuse_is_answered(argv[1], argv[2]);
  return 0;
}
