#include <vector>

#include "weightloom/codec/block_codec.h"
#include "weightloom/execute/compute_internal.h"
#include "weightloom/execute/kernels_internal.h"

namespace weightloom {
namespace {

/// Bytes of one matrix of a box.
int64_t matrix_bytes(const Box& box, DType dtype) {
  return box[box.size() - 2].size() * box.back().size() * (bits(dtype) / 8);
}

/// How many matrices a box is a stack of.
int64_t matrices(const Box& box) {
  int64_t count = 1;
  for (size_t d = 0; d + 2 < box.size(); ++d) count *= box[d].size();
  return count;
}

ValueBox last_dims(const Box& box) {
  const Interval& rows = box[box.size() - 2];
  return {rows.begin, rows.end, box.back().begin, box.back().end};
}

/// Works on one matrix after another.
class MatrixWalk {
 public:
  MatrixWalk(const ProgramNode& node, const Computation& computation, std::byte* staging,
             std::byte* memory)
      : node_(node), computation_(computation), staging_(staging), memory_(memory) {}

  int64_t run() const {
    int64_t lost = 0;
    for (int64_t i = 0; i < matrices(computation_.box); ++i) {
      lost += node_.encodes ? encode_matrix(i) : decode_matrix(i);
    }
    return lost;
  }

 private:
  const std::byte* input(size_t place, int64_t matrix) const {
    const OperandReads& input = computation_.inputs[place];
    return staging_ + input.at_bytes + matrix * matrix_bytes(input.box, node_.inputs[place].dtype);
  }

  int64_t input_row(size_t place) const {
    return computation_.inputs[place].box.back().size() * (bits(node_.inputs[place].dtype) / 8);
  }

  std::byte* result(const ComputedResult& result, int64_t matrix) const {
    return (result.in_place ? memory_ : staging_) + result.at_bytes +
           matrix * matrix_bytes(result.box, result.dtype);
  }

  int64_t decode_matrix(int64_t matrix) const {
    std::vector<OperandView> operands;
    for (size_t i = 0; i < computation_.inputs.size(); ++i) {
      operands.push_back({input(i, matrix), input_row(i)});
    }
    const ComputedResult& made = computation_.results.front();
    return decode(node_.codec, last_dims(computation_.box), operands,
                  {made.dtype, result(made, matrix), made.row_bytes});
  }

  int64_t encode_matrix(int64_t matrix) const {
    std::vector<OperandSpan> operands;
    for (const ComputedResult& made : computation_.results) {
      operands.push_back({result(made, matrix), made.row_bytes});
    }
    return encode(node_.codec, last_dims(computation_.box), {input(0, matrix), input_row(0)},
                  operands);
  }

  const ProgramNode& node_;
  const Computation& computation_;
  std::byte* staging_;
  std::byte* memory_;
};

}  // namespace

int64_t compute(const ProgramNode& node, const Computation& computation, std::byte* staging,
                std::byte* memory) {
  const int64_t lost = MatrixWalk(node, computation, staging, memory).run();
  for (const ComputedResult& result : computation.results) {
    for (const StagedCopy& copy : result.copies) {
      copy_region(copy.region, staging + result.at_bytes, memory);
    }
  }
  return lost;
}

}  // namespace weightloom
