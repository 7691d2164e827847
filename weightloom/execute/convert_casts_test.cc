// Conversions that cast, on disk.
#include <cmath>
#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/codec/cast_reference.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/load.h"
#include "weightloom/execute/verify.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The elements of `bytes`, each cast by the reference.
std::string cast_bytes(DType from, DType to, const std::string& bytes) {
  const auto count = static_cast<int64_t>(bytes.size()) * 8 / bits(from);
  std::string result(static_cast<size_t>(count * bits(to) / 8), '\0');
  cast_reference(from, to, reinterpret_cast<const std::byte*>(bytes.data()),
                 reinterpret_cast<std::byte*>(result.data()), count);
  return result;
}

/// Tensors of the tiny model, all cast to `to`. `text` is as tensor_text makes it.
Tensors all_cast(Tensors tensors, DType to) {
  for (auto& [name, text] : tensors) {
    const size_t space = text.find(' ');
    const size_t bytes = text.find("] ") + 2;
    const DType from = *parse_dtype(text.substr(0, space));
    text = std::string(to_string(to)) + text.substr(space, bytes - space) +
           cast_bytes(from, to, text.substr(bytes));
  }
  return tensors;
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::vector<std::string> codes(const std::vector<Finding>& findings) {
  std::vector<std::string> codes;
  for (const Finding& finding : findings) codes.push_back(finding.code + " " + finding.tensor);
  return codes;
}

class ConvertCastsTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const {
    return read_whole_file(system_calls(), folder_ / name);
  }

  /// A job with --dtype.
  Job cast_job(const std::string& from, const std::string& to, std::optional<Side> side,
               DType dtype, std::vector<std::string> keep = {}) const {
    Job result = job(at(from), at(to), side);
    result.selection.dtype = dtype;
    result.selection.keep_dtype = std::move(keep);
    return result;
  }

  VerifyReport verify(const std::string& a, const std::string& b, const Selection& selection) {
    return verify_equal(system_calls(), Checkpoint::open(system_calls(), at(a)),
                        Checkpoint::open(system_calls(), at(b)), selection, Registry::built_in(),
                        {});
  }

  TemporaryFolder folder_;
};

TEST_F(ConvertCastsTest, ThroughAMappingEqualsTheReferenceOnEveryElement) {
  write_folder(at("hub"), hub_files());
  for (DType dtype : {DType::F16, DType::F32, DType::F64, DType::BF16}) {
    const std::string name(to_string(dtype));
    run(cast_job("hub", name, Side::runtime, dtype));
    EXPECT_EQ(read_tensors(at(name)), all_cast(runtime_tensors(), dtype));
  }
}

TEST_F(ConvertCastsTest, BackToHubGivesTheOriginalsNamesAndShapesInTodaysDType) {
  write_folder(at("hub"), hub_files(250));
  run(cast_job("hub", "runtime", Side::runtime, DType::F32));
  const ConvertReport report = run(job(at("runtime"), at("back"), Side::hub));
  EXPECT_EQ(read_tensors(at("back")), all_cast(read_tensors(at("hub")), DType::F32));
  EXPECT_THAT(codes(report.findings), ElementsAre("dtype_changed lm_head.weight"));
  EXPECT_THAT(report.findings[0].message, HasSubstr("and 7 more have another dtype"));
}

TEST_F(ConvertCastsTest, AWideningCastComesBackBitForBit) {
  Folder files = hub_files();
  std::vector<TensorSpec> specs = hub_specs();
  for (TensorSpec& spec : specs) spec.dtype = DType::BF16;
  const Folder all_bf16 = checkpoint_files(specs);
  for (const auto& [name, bytes] : all_bf16) files[name] = bytes;
  write_folder(at("hub"), files);
  run(cast_job("hub", "runtime", Side::runtime, DType::F64));
  run(cast_job("runtime", "back", Side::hub, DType::BF16));
  const Tensors twice = all_cast(all_cast(read_tensors(at("hub")), DType::F64), DType::BF16);
  EXPECT_EQ(read_tensors(at("back")), twice) << "NaNs are quiet now, all else is as it was";
}

TEST_F(ConvertCastsTest, ValuesThatBecameInfiniteAreCountedByTensor) {
  write_safetensors(at("m.safetensors"),
                    {{"a", DType::F32, {5}, floats({1, 1e5F, -7e4F, HUGE_VALF, 65519})},
                     {"b", DType::F32, {2}, floats({1, 2})},
                     {"kept", DType::F32, {1}, floats({1e30F})}});
  const ConvertReport report =
      run(cast_job("m.safetensors", "out", std::nullopt, DType::F16, {"kept"}));
  EXPECT_THAT(codes(report.findings), ElementsAre("unknown_mapping ", "cast_not_finite a"));
  EXPECT_EQ(report.findings[1].severity, Severity::report);
  EXPECT_THAT(report.findings[1].message, HasSubstr("2 of 5 values were finite and became "
                                                    "infinite in F16"));
}

TEST_F(ConvertCastsTest, LoadTellsTheSame) {
  write_safetensors(at("m.safetensors"), {{"a", DType::F32, {3}, floats({1, HUGE_VALF, -3e38F})},
                                          {"w", DType::F64, {1}, std::string(8, '\x7f')}});
  Selection selection;
  selection.dtype = DType::F16;
  const Conversion conversion =
      plan_conversion(system_calls(), Checkpoint::open(system_calls(), at("m.safetensors")),
                      selection, Registry::built_in());
  const LoadedTensors loaded = load(system_calls(), conversion.program, {});
  EXPECT_THAT(codes(loaded.findings), ElementsAre("cast_not_finite a", "cast_not_finite w"))
      << "what is infinite in the source is not counted; 0x7f7f… is finite in F64";
  EXPECT_THAT(loaded.findings[0].message, HasSubstr("1 of 3"));
}

TEST_F(ConvertCastsTest, TheConfigSaysTheNewDTypeAndNothingElseOfItChanges) {
  Folder files = hub_files();
  files["config.json"] =
      "{\"model_type\": \"mixtral\",\n\"num_local_experts\":2, \"x\": NaN, "
      "\"torch_dtype\":\"bfloat16\"}\n";
  write_folder(at("hub"), files);
  run(cast_job("hub", "runtime", Side::runtime, DType::F32));
  EXPECT_EQ(text("runtime/config.json"),
            "{\"model_type\": \"mixtral\",\n\"num_local_experts\":2, \"x\": NaN, "
            "\"torch_dtype\":\"float32\"}\n");
  run(job(at("hub"), at("plain"), Side::runtime));
  EXPECT_EQ(text("plain/config.json"), files["config.json"]);
}

TEST_F(ConvertCastsTest, OntoItselfTheConfigIsReplacedNotWrittenThrough) {
  Folder files = hub_files();
  files["config.json"] =
      R"({"model_type": "mixtral", "num_local_experts": 2, "dtype": "bfloat16"})";
  write_folder(at("hub"), files);
  ASSERT_EQ(system_calls().link(at("hub/config.json"), at("other_name.json")), 0);
  Job onto_itself = cast_job("hub", "hub", std::nullopt, DType::F16);
  onto_itself.output.overwrite = true;
  run(onto_itself);
  EXPECT_THAT(text("hub/config.json"), HasSubstr("\"dtype\": \"float16\""));
  EXPECT_EQ(text("other_name.json"), files["config.json"]);
}

TEST_F(ConvertCastsTest, F32OntoItselfAsF32ChangesNoByteOfItsTensors) {
  write_safetensors(at("model.safetensors"), {{"a", DType::F32, {2}, floats({1.5F, -0.0F})}});
  const Tensors before = read_tensors(at("model.safetensors"));
  Job onto_itself = cast_job("model.safetensors", "model.safetensors", std::nullopt, DType::F32);
  onto_itself.output.overwrite = true;
  run(onto_itself);
  EXPECT_EQ(read_tensors(at("model.safetensors")), before);
}

TEST_F(ConvertCastsTest, ThreadsAndBudgetDoNotChangeTheBytes) {
  write_folder(at("hub"), hub_files());
  run(cast_job("hub", "one", Side::runtime, DType::F16));
  Job wide = cast_job("hub", "four", Side::runtime, DType::F16);
  wide.run.threads = 4;
  wide.run.memory_budget_bytes = int64_t{64} << 20;
  run(wide);
  EXPECT_EQ(read_folder(at("four")), read_folder(at("one")));
}

TEST_F(ConvertCastsTest, ACastFolderEqualsItsSourceUnderTheSameCast) {
  write_folder(at("hub"), hub_files());
  run(cast_job("hub", "cast", Side::runtime, DType::F16, {"*norm*"}));
  Selection same;
  same.dtype = DType::F16;
  same.keep_dtype = {"*norm*"};
  EXPECT_TRUE(verify("cast", "hub", same).equal);
  const VerifyReport plain = verify("cast", "hub", {});
  EXPECT_EQ(plain.differences.size(), 4U);
  for (const Difference& difference : plain.differences) EXPECT_EQ(difference.code, "dtype");
}

TEST_F(ConvertCastsTest, AWrongRoundingIsFoundByVerify) {
  write_safetensors(at("a.safetensors"), {{"x", DType::BF16, {1}, std::string("\x80\x3f", 2)}});
  write_safetensors(at("b.safetensors"), {{"x", DType::F32, {1}, floats({1.01F})}});
  Selection cast;
  cast.dtype = DType::BF16;
  const VerifyReport report = verify("a.safetensors", "b.safetensors", cast);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].code, "values");
}

}  // namespace
}  // namespace weightloom::testing
