#include "weightloom/codec/block_codec_reference.h"
#include "weightloom/plan/node_boxes_internal.h"
#include "weightloom/plan/node_reference_internal.h"

namespace weightloom {
namespace {

int64_t row_bytes(const Shape& shape, DType dtype) { return shape.back() * (bits(dtype) / 8); }

int64_t matrix_bytes(const Shape& shape, DType dtype) {
  return shape[shape.size() - 2] * row_bytes(shape, dtype);
}

int64_t matrices(const Shape& shape) {
  int64_t count = 1;
  for (size_t d = 0; d + 2 < shape.size(); ++d) count *= shape[d];
  return count;
}

/// Results with memory of their own.
std::vector<Bytes> results_of(const ProgramNode& node) {
  std::vector<Bytes> results;
  for (int32_t r = 0; r < result_count(node); ++r) {
    const Shape shape = result_shape(node, r);
    results.emplace_back(
        static_cast<size_t>(matrices(shape) * matrix_bytes(shape, result_dtype(node, r))));
  }
  return results;
}

}  // namespace

Bytes compute_reference(const ProgramNode& node, int32_t result, const std::vector<Bytes>& inputs) {
  std::vector<Bytes> results = results_of(node);
  const ValueBox box{0, node.shape[node.shape.size() - 2], 0, node.shape.back()};
  for (int64_t m = 0; m < matrices(node.shape); ++m) {
    std::vector<OperandView> views;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ProgramTarget& input = node.inputs[i];
      views.push_back({inputs[i].data() + m * matrix_bytes(input.shape, input.dtype),
                       row_bytes(input.shape, input.dtype)});
    }
    std::vector<OperandSpan> spans;
    for (int32_t r = 0; r < result_count(node); ++r) {
      const Shape shape = result_shape(node, r);
      const DType dtype = result_dtype(node, r);
      spans.push_back({results[static_cast<size_t>(r)].data() + m * matrix_bytes(shape, dtype),
                       row_bytes(shape, dtype)});
    }
    if (node.encodes) {
      encode_reference(node.codec, box, {views[0].data, views[0].row_bytes}, spans);
    } else {
      decode_reference(node.codec, box, views, {DType::F32, spans[0].data, spans[0].row_bytes});
    }
  }
  return std::move(results[static_cast<size_t>(result)]);
}

}  // namespace weightloom
