#include "weightloom/safetensors/header.h"

#include <bit>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kOne = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

Header parse(std::string_view json, int64_t data_bytes = 8) {
  return Header::parse(std::string(json), 8 + static_cast<int64_t>(json.size()) + data_bytes, "f");
}

/// The message with which `json` is refused; empty if it is accepted.
std::string refusal(std::string_view json, int64_t data_bytes = 8) {
  auto error = refusal_of([&] { parse(json, data_bytes); });
  if (!error) return "";
  EXPECT_EQ(error->code(), ErrorCode::format) << json;
  return error->what();
}

/// As kOne, with other fields.
std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

TEST(HeaderParse, ReadsATensor) {
  Header header = parse(kOne);
  EXPECT_THAT(header.tensors(), ElementsAre(HeaderTensor{"a", DType::F32, {2}, 0, 8}));
  EXPECT_THAT(header.metadata(), IsEmpty());
  EXPECT_EQ(header.json(), kOne);
  EXPECT_EQ(header.data_begin_bytes(), 8 + 54);
  EXPECT_EQ(header.data_bytes(), 8);
  EXPECT_EQ(header.file_bytes(), 8 + 54 + 8);
  EXPECT_EQ(header.bytes(), file_text(kOne));
}

TEST(HeaderParse, AcceptsNoTensors) {
  EXPECT_THAT(parse("{}", 0).tensors(), IsEmpty());
  EXPECT_THAT(parse(R"({"__metadata__":{"k":"v"}})", 0).metadata(),
              ElementsAre(std::pair("k", "v")));
}

TEST(HeaderParse, KeepsMetadataInFileOrder) {
  Header header = parse(R"({"__metadata__":{"z":"1","a":"","é\n":"\"2\""}})", 0);
  EXPECT_THAT(header.metadata(),
              ElementsAre(std::pair("z", "1"), std::pair("a", ""), std::pair("é\n", "\"2\"")));
}

TEST(HeaderParse, ReadsNullMetadataAsNone) {
  Header header =
      parse(R"({"__metadata__":null,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  EXPECT_THAT(header.metadata(), IsEmpty());
  EXPECT_EQ(header.tensors().size(), 1u);
}

TEST(HeaderParse, AcceptsPaddingAndUnalignedData) {
  for (size_t spaces = 0; spaces < 9; ++spaces) {
    EXPECT_EQ(refusal(std::string(kOne) + std::string(spaces, ' ')), "") << spaces;
  }
}

TEST(HeaderParse, SortsTensorsByOffset) {
  Header header = parse(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                        R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})");
  EXPECT_THAT(header.tensors(), ElementsAre(HeaderTensor{"a", DType::F32, {1}, 0, 4},
                                            HeaderTensor{"b", DType::F32, {1}, 4, 8}));
}

TEST(HeaderParse, TakesFieldsInAnyOrder) {
  Header header = parse(R"({"a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}})");
  EXPECT_THAT(header.tensors(), ElementsAre(HeaderTensor{"a", DType::F32, {2}, 0, 8}));
}

TEST(HeaderParse, AcceptsScalarsAndTensorsOfNoBytesAtAnyBoundary) {
  EXPECT_THAT(parse(entry("F32", "[]", "[0,4]"), 4).tensors(),
              ElementsAre(HeaderTensor{"a", DType::F32, {}, 0, 4}));
  Header header = parse(R"({"z":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]},)"
                        R"("y":{"dtype":"I8","shape":[0],"data_offsets":[4,4]},)"
                        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                        R"("e":{"dtype":"I8","shape":[0],"data_offsets":[8,8]},)"
                        R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})");
  std::string names;
  for (const auto& tensor : header.tensors()) names += tensor.name;
  EXPECT_EQ(names, "ayzbe");
}

TEST(HeaderParse, CountsTheBytesOfEveryWidth) {
  EXPECT_EQ(refusal(entry("BOOL", "[8]", "[0,8]")), "");
  EXPECT_EQ(refusal(entry("C64", "[1]", "[0,8]")), "");
  EXPECT_EQ(refusal(entry("F8_E8M0", "[8]", "[0,8]")), "");
  EXPECT_EQ(refusal(entry("F4", "[2,8]", "[0,8]")), "");
  EXPECT_EQ(refusal(entry("F6_E2M3", "[4]", "[0,3]"), 3), "");
}

TEST(HeaderParse, KeepsNamesAsTheyAreMeant) {
  EXPECT_EQ(parse(R"({"层.é":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})").tensors()[0].name,
            "层.é");
  EXPECT_EQ(
      parse(R"({"a\u00e9\"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})").tensors()[0].name,
      "aé\"b");
  EXPECT_EQ(parse(R"({"../../etc/passwd":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})")
                .tensors()[0]
                .name,
            "../../etc/passwd");
}

TEST(HeaderParse, RefusesWhatDoesNotBeginWithABrace) {
  EXPECT_EQ(refusal(""), "f: the header is empty, but '{' is needed");
  EXPECT_EQ(refusal("[1,2]"), "f: the header begins with byte 0x5b, but '{' is needed");
  EXPECT_EQ(refusal("\xef\xbb\xbf" + std::string(kOne)),
            "f: the header begins with byte 0xef, but '{' is needed");
  EXPECT_EQ(refusal(" " + std::string(kOne)),
            "f: the header begins with byte 0x20, but '{' is needed");
}

TEST(HeaderParse, RefusesWhatIsNotJson) {
  for (std::string json :
       {"{not json}", R"({"a":{"dtype":"F32","shape":[2],)",
        "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        R"({"\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
        R"({"\udc00":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "{} {}", "{"}) {
    EXPECT_THAT(refusal(json), HasSubstr("that are not valid JSON")) << json;
  }
  EXPECT_THAT(refusal(std::string(kOne) + std::string(8, '\0')), HasSubstr("not valid JSON"));
}

TEST(HeaderParse, RefusesDeepNestingWithoutOverflowingTheStack) {
  std::string json = R"({"a":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_THAT(refusal(json), HasSubstr("not valid JSON"));
}

TEST(HeaderParse, RefusesDuplicates) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})"),
            "f: tensor 'a': the name stands in the header twice");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}})"),
            "f: tensor 'a': the field dtype stands there twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0),
            "f: __metadata__ stands in the header twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":"1","k":"1"}})", 0),
            "f: __metadata__ has the key 'k' twice");
}

TEST(HeaderParse, RefusesMetadataThatIsNotStrings) {
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":1}})", 0),
            "f: __metadata__ entry 'k' is an integer, but a string is needed");
  EXPECT_EQ(refusal(R"({"__metadata__":["k"]})", 0),
            "f: __metadata__ is a list, but an object of strings is needed");
}

TEST(HeaderParse, RefusesUnknownDTypesAndFields) {
  EXPECT_EQ(refusal(entry("F7", "[2]", "[0,8]")), "f: tensor 'a': unknown dtype 'F7'");
  EXPECT_EQ(refusal(entry("", "[]", "[0,0]"), 0), "f: tensor 'a': unknown dtype ''");
  EXPECT_EQ(refusal(R"({"a":{"dtype":1,"shape":[2],"data_offsets":[0,8]}})"),
            "f: tensor 'a': dtype is an integer, but a string is needed");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})"),
            "f: tensor 'a': unknown field 'x'; the fields are dtype, shape and data_offsets");
  EXPECT_EQ(refusal(R"({"a":[]})"), "f: tensor 'a': the entry is a list, but an object is needed");
}

TEST(HeaderParse, RefusesMissingFields) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})"),
            "f: tensor 'a': the field shape is missing");
  EXPECT_EQ(refusal(R"({"a":{"shape":[2],"data_offsets":[0,8]}})"),
            "f: tensor 'a': the field dtype is missing");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2]}})"),
            "f: tensor 'a': the field data_offsets is missing");
  EXPECT_EQ(refusal(entry("F32", "[2]", "[0]")),
            "f: tensor 'a': data_offsets holds 1 numbers, but 2 are needed");
}

TEST(HeaderParse, RefusesNumbersThatAreNoSizes) {
  EXPECT_EQ(refusal(entry("F32", "[-2]", "[0,8]")),
            "f: tensor 'a': shape holds -2, but 0 or more is needed");
  EXPECT_EQ(refusal(entry("F32", "[2.0]", "[0,8]")),
            "f: tensor 'a': shape holds a fraction, but integers are needed");
  EXPECT_EQ(refusal(entry("F32", R"(["2"])", "[0,8]")),
            "f: tensor 'a': shape holds a string, but integers are needed");
  EXPECT_EQ(refusal(entry("F32", "2", "[0,8]")),
            "f: tensor 'a': shape is an integer, but a list is needed");
  EXPECT_EQ(refusal(entry("F32", "[9223372036854775808]", "[0,8]")),
            "f: tensor 'a': shape holds a number of 2^63 or more");
}

TEST(HeaderParse, RefusesShapesThatOverflow) {
  EXPECT_EQ(refusal(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0),
            "f: tensor 'a': F32 [4294967296, 4294967296] is larger than 2^63 bits");
  EXPECT_EQ(refusal(entry("F32", "[4611686018427387904]", "[0,0]"), 0),
            "f: tensor 'a': F32 [4611686018427387904] is larger than 2^63 bits");
}

TEST(HeaderParse, RefusesSizesThatDisagree) {
  EXPECT_EQ(refusal(entry("F32", "[3]", "[0,8]")),
            "f: tensor 'a': 8 bytes at [0, 8), but F32 [3] needs 12");
  EXPECT_EQ(refusal(entry("F32", "[0]", "[8,0]")),
            "f: tensor 'a': data_offsets end at 0, before they begin at 8");
  EXPECT_EQ(refusal(entry("F4", "[3]", "[0,2]"), 2),
            "f: tensor 'a': F4 [3] is 12 bits, which do not fill whole bytes");
}

TEST(HeaderParse, RefusesHolesOverlapsAndBytesThatAreMissingOrLeftOver) {
  EXPECT_EQ(refusal(entry("F32", "[4]", "[0,16]")),
            "f: tensor 'a': bytes [0, 16) reach past the data section, which has 8 bytes: 8 bytes "
            "are missing");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
            "f: tensor 'b': bytes [0, 8) overlap the tensor before it, which ends at 8");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                    12),
            "f: tensor 'b': begins at 8, but the tensor before it ends at 4: no tensor owns the 4 "
            "bytes between");
  EXPECT_EQ(refusal(entry("F32", "[1]", "[4,8]")),
            "f: tensor 'a': begins at 4, but the data section begins at 0: no tensor owns the 4 "
            "bytes between");
  EXPECT_EQ(refusal(kOne, 11),
            "f: 3 bytes after the last tensor: the tensors hold 8 bytes, the data section has 11");
}

TEST(HeaderParse, RefusesNamesWithNul) {
  EXPECT_EQ(refusal(R"({"a\u0000b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
            "f: tensor 'a\\x00b': the name holds a NUL, which C strings cannot show");
}

class HeaderRead : public testing::Test {
 protected:
  std::string refusal_of_file(std::string_view text) const {
    write_file(folder_ / "f", text);
    auto error = refusal_of([&] { read(); });
    if (!error) return "";
    EXPECT_EQ(error->code(), ErrorCode::format);
    return error->what();
  }
  Header read(const Syscalls& calls = system_calls()) const {
    return Header::read(File::open_read(calls, folder_ / "f"), "f");
  }

  TemporaryFolder folder_;
};

std::string prefix(uint64_t length) {
  auto bytes = std::bit_cast<std::array<char, 8>>(length);
  return std::string(bytes.data(), bytes.size());
}

TEST_F(HeaderRead, ReadsAFileUnderShortTransfers) {
  write_file(folder_ / "f", file_text(kOne, "01234567"));
  FaultSyscalls calls;
  calls.shorten_transfers(5, 7);
  EXPECT_THAT(read(calls).tensors(), ElementsAre(HeaderTensor{"a", DType::F32, {2}, 0, 8}));
}

TEST_F(HeaderRead, RefusesFilesShorterThanTheLengthPrefix) {
  EXPECT_EQ(refusal_of_file(""), "f: 0 bytes, but a safetensors file has at least 8");
  EXPECT_EQ(refusal_of_file("\1\2\3"), "f: 3 bytes, but a safetensors file has at least 8");
}

TEST_F(HeaderRead, RefusesLengthsPastTheEndWithoutAllocating) {
  EXPECT_EQ(refusal_of_file(prefix(1 << 20) + "{}"),
            "f: the header length is 1048576, but only 2 bytes follow it");
  EXPECT_EQ(refusal_of_file(prefix(uint64_t{1} << 63) + "{}"),
            "f: the header length is 9223372036854775808, but only 2 bytes follow it");
  EXPECT_EQ(refusal_of_file(prefix(100'000'001) + "{}"),
            "f: the header length is 100000001, but only 2 bytes follow it");
  EXPECT_EQ(refusal_of_file(prefix(0)), "f: the header is empty, but '{' is needed");
}

TEST_F(HeaderRead, RefusesLengthsOverTheLimit) {
  write_file(folder_ / "f", prefix(100'000'001));
  File::open_write(system_calls(), folder_ / "f").truncate(200'000'000);  // sparse
  auto error = refusal_of([&] { read(); });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(),
               "f: the header length is 100000001, but at most 100000000 are allowed");
}

TEST_F(HeaderRead, RecognisesAGitLfsPointer) {
  EXPECT_EQ(refusal_of_file("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
            "f: a Git LFS pointer, not the weights themselves");
}

TEST_F(HeaderRead, PassesOnReadFailures) {
  write_file(folder_ / "f", file_text(kOne, "01234567"));
  FaultSyscalls calls;
  calls.fail_call(CallKind::pread, 1, EIO);
  auto error = refusal_of([&] { read(calls); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
}

}  // namespace
}  // namespace weightloom
