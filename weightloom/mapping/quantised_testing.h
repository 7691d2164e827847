// Helpers of the tests of quantised tensors: a small checkpoint of names, dtypes and shapes, and
// what is found in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/layout/operations.h"
#include "weightloom/mapping/quantised_tensors.h"

namespace weightloom::testing {

/// Integers as little-endian bytes of `width`.
inline std::string bytes_of(const std::vector<int64_t>& integers, int width) {
  std::string bytes;
  for (const int64_t integer : integers) {
    for (int i = 0; i < width; ++i) {
      bytes += static_cast<char>(static_cast<uint64_t>(integer) >> (8 * i) & 0xFF);
    }
  }
  return bytes;
}

/// Leaves without data, but for the few whose values declare something.
class QuantisedCase {
 public:
  /// `config`: of config.json; "" for none.
  explicit QuantisedCase(const std::string& config = "")
      : config_(config.empty() ? ModelConfig() : ModelConfig::parse(config, "config.json")) {}

  QuantisedCase& add(const std::string& name, DType dtype, Shape shape, std::string bytes = "") {
    const auto id = static_cast<SourceId>(leaves_.size());
    bytes_[leaves_.size()] = std::move(bytes);
    leaves_.push_back({name, dtype, identity(id, std::move(shape))});
    return *this;
  }

  /// What is found; of each tensor, its operands are held against what its codec says it takes.
  QuantisedTensors find() const {
    auto found = find_quantised(config_, leaves_, [this](size_t leaf) { return bytes_.at(leaf); });
    for (const QuantisedTensor& tensor : found.tensors) expect_operands_fit(found, tensor);
    return found;
  }

  /// Codes of the findings, in order.
  std::vector<std::string> codes() const {
    std::vector<std::string> codes;
    for (const Finding& finding : find().findings) codes.push_back(finding.code);
    return codes;
  }

  /// Names of the leaves that were taken, in order.
  std::vector<std::string> taken() const {
    const QuantisedTensors found = find();
    std::vector<std::string> names;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (found.consumed[i]) names.push_back(leaves_[i].name);
    }
    return names;
  }

  const std::vector<NamedLayout>& leaves() const { return leaves_; }

 private:
  static Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

  void expect_operands_fit(const QuantisedTensors& found, const QuantisedTensor& tensor) const {
    const auto operands = operands_of(tensor.codec);
    ASSERT_EQ(operands.size(), tensor.operands.size()) << tensor.name;
    ASSERT_GE(tensor.coded_shape.size(), 2U) << tensor.name;
    const size_t rank = tensor.coded_shape.size();
    const ValueBox all{0, tensor.coded_shape[rank - 2], 0, tensor.coded_shape[rank - 1]};
    EXPECT_EQ(elements(tensor.coded_shape), tensor.layout.size()) << tensor.name;
    for (size_t i = 0; i < operands.size(); ++i) {
      const QuantisedOperand& operand = tensor.operands[i];
      const ValueBox box = operand_box(operands[i], all);
      ASSERT_EQ(operand.shape.size(), rank) << tensor.name << " operand " << i;
      const bool is_shared = operands[i].role == OperandRole::table;
      if (!is_shared) {
        EXPECT_EQ(leading(operand.shape), leading(tensor.coded_shape));
      }
      EXPECT_EQ(operand.shape[rank - 2], box.rows()) << tensor.name << " operand " << i;
      EXPECT_EQ(operand.shape[rank - 1], box.cols()) << tensor.name << " operand " << i;
      if (operand.is_made) {
        EXPECT_LT(operand.place, found.tensors.size());
        EXPECT_EQ(found.tensors[operand.place].coded_shape, operand.shape);
        continue;
      }
      EXPECT_TRUE(found.consumed[operand.place]);
      EXPECT_EQ(leaves_[operand.place].layout.size(), elements(operand.shape)) << tensor.name;
      EXPECT_EQ(bits(leaves_[operand.place].dtype), bits(operands[i].dtype)) << tensor.name;
    }
  }

  ModelConfig config_;
  std::vector<NamedLayout> leaves_;
  std::map<size_t, std::string> bytes_;
};

/// A config.json that has this as its quantization_config.
inline std::string quantised_by(const std::string& json) {
  return R"({"model_type": "x", "quantization_config": )" + json + "}";
}

}  // namespace weightloom::testing
