#include "weightloom/safetensors/memory_checkpoint.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(MemoryCheckpoint, HasTheTensorsAndTheTextsBesideThem) {
  const std::string a = "12345678";
  const std::string b = "abcdef";
  const MemoryCheckpoint memory = MemoryCheckpoint::make(
      {{{"b", DType::I16, {3}}, bytes_of(b)}, {{"a", DType::F32, {1, 2}}, bytes_of(a)}},
      {{"format", "pt"}}, {{"config.json", "{}"}});
  const Checkpoint& checkpoint = memory.checkpoint();
  ASSERT_EQ(checkpoint.tensors().size(), 2);
  EXPECT_EQ(checkpoint.find("a")->shape, (Shape{1, 2}));
  EXPECT_EQ(checkpoint.data_bytes(), 14);
  const File file = File::open_read(memory.calls(), checkpoint.files()[0].path);
  std::string read(6, '?');
  file.read_at(std::as_writable_bytes(std::span(read)), checkpoint.find("b")->offset_bytes);
  EXPECT_EQ(read, b);
  EXPECT_EQ(read_whole_file(memory.calls(), checkpoint.folder() + "/config.json"), "{}");
}

TEST(MemoryCheckpoint, IsTheFileThatWouldBeWritten) {
  const std::string a = "1234";
  const std::string b = "xyz";
  const MemoryCheckpoint memory = MemoryCheckpoint::make(
      {{{"b", DType::U8, {3}}, bytes_of(b)}, {{"a", DType::F32, {}}, bytes_of(a)}}, {});
  const Header header = Header::lay_out({{"b", DType::U8, {3}}, {"a", DType::F32, {}}}, {});
  EXPECT_EQ(read_whole_file(memory.calls(), memory.checkpoint().files()[0].path),
            header.bytes() + a + b);
}

TEST(MemoryCheckpoint, OfNothingIsOne) {
  EXPECT_EQ(MemoryCheckpoint::make({}, {}).checkpoint().tensors().size(), 0);
}

TEST(MemoryCheckpoint, RefusesSizesThatDisagree) {
  const std::string a = "12345";
  const auto refusal =
      refusal_of([&] { MemoryCheckpoint::make({{{"a", DType::F32, {2}}, bytes_of(a)}}, {}); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
  EXPECT_THAT(refusal->what(), HasSubstr("'a': 5 bytes of memory, but F32 [2] needs 8"));
}

TEST(MemoryCheckpoint, RefusesNamesThatRepeat) {
  const std::string a = "1";
  const auto refusal = refusal_of([&] {
    MemoryCheckpoint::make(
        {{{"a", DType::U8, {1}}, bytes_of(a)}, {{"a", DType::U8, {1}}, bytes_of(a)}}, {});
  });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
}

}  // namespace
}  // namespace weightloom
