// Which boxes of values, operands and files belong together.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weightloom/layout/source_box.h"
#include "weightloom/plan/program.h"

namespace weightloom {

/// The smallest box of a node's values that it can compute at once and that a box of one of its
/// results lies in.
Box values_box(const ProgramNode& node, int32_t result, const Box& of_result);
/// The same of a box of values.
Box whole_granules(const ProgramNode& node, const Box& values);
/// The box of one of its inputs that belongs to a box of values.
Box input_box(const ProgramNode& node, size_t input, const Box& values);
/// The box of one of its results that is computed with a box of values.
Box result_box(const ProgramNode& node, int32_t result, const Box& values);
/// Shape and dtype of one of its results.
Shape result_shape(const ProgramNode& node, int32_t result);
DType result_dtype(const ProgramNode& node, int32_t result);
/// How many there are.
int32_t result_count(const ProgramNode& node);

/// The regions that make a box of an input, row-major and dense.
std::vector<Region> regions_of_box(const ProgramTarget& input, const Box& box);
/// Size of a box of elements of whole bytes.
int64_t bytes_of_box(const Box& box, DType dtype);

/// A region over a computed source with elements for points: its source side counts elements, its
/// target side bytes.
Region in_elements(const Region& region, const RegionType& type, DType dtype);

/// Bytes of a source in a file.
struct NeededBytes {
  SourceId source = 0;
  int64_t bytes = 0;
};
/// What each region of a target, or of what it is computed from, needs of sources in files.
std::vector<NeededBytes> needed_of_sources(const CopyProgram& program, const ProgramTarget& target);
/// The sum of them.
int64_t needed_bytes(const CopyProgram& program, const ProgramTarget& target);
/// Rows of a computed source that are made from one block, where a region takes whole rows of it in
/// order; else 1.
int64_t rows_of_block(const CopyProgram& program, const Region& region);

}  // namespace weightloom
