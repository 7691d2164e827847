#include <fmt/format.h>

#include "weightloom/c_api/c_error_internal.h"
#include "weightloom/c_api/c_handles_internal.h"
#include "weightloom/c_api/c_structs_internal.h"

using namespace weightloom;

wl_status wl_checkpoint_open(const char* path, int32_t threads, wl_checkpoint** checkpoint,
                             wl_error** error) {
  if (checkpoint != nullptr) *checkpoint = nullptr;
  return c_api::guarded(error, [&] {
    c_api::require(path, "path");
    c_api::require(static_cast<const void*>(checkpoint), "checkpoint");
    const int readers = c_api::threads_or_default(threads);
    auto made = std::make_unique<wl_checkpoint>();
    made->checkpoint =
        std::make_shared<const Checkpoint>(Checkpoint::open(system_calls(), path, readers));
    made->findings_json = c_api::findings_json(made->checkpoint->findings());
    *checkpoint = made.release();
  });
}

void wl_checkpoint_free(wl_checkpoint** checkpoint) {
  if (checkpoint == nullptr) return;
  delete *checkpoint;
  *checkpoint = nullptr;
}

int64_t wl_checkpoint_tensor_count(const wl_checkpoint* checkpoint) {
  return checkpoint == nullptr ? -1 : std::ssize(checkpoint->checkpoint->tensors());
}

wl_status wl_checkpoint_tensor(const wl_checkpoint* checkpoint, int64_t index, wl_tensor* tensor,
                               wl_error** error) {
  return c_api::guarded(error, [&] {
    c_api::require(checkpoint, "checkpoint");
    c_api::require(tensor, "tensor");
    const auto tensors = checkpoint->checkpoint->tensors();
    const StoredTensor& found = tensors[c_api::checked_index(index, tensors.size(), "tensor")];
    c_api::fill_struct(
        tensor, c_api::describe(found.name, found.dtype, found.shape, found.size_bytes), "tensor");
  });
}

int64_t wl_checkpoint_find(const wl_checkpoint* checkpoint, const char* name) {
  if (checkpoint == nullptr || name == nullptr) return -1;
  const StoredTensor* found = checkpoint->checkpoint->find(name);
  return found == nullptr ? -1 : found - checkpoint->checkpoint->tensors().data();
}

const char* wl_checkpoint_findings_json(const wl_checkpoint* checkpoint) {
  return checkpoint == nullptr ? "[]" : checkpoint->findings_json.c_str();
}
