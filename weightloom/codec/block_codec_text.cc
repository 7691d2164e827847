#include <fmt/format.h>

#include "weightloom/codec/block_codec.h"

namespace weightloom {

std::string_view to_string(BlockFormat format) noexcept {
  switch (format) {
    case BlockFormat::fp8:
      return "fp8";
    case BlockFormat::e2m1:
      return "e2m1";
    case BlockFormat::packed:
      return "packed";
    case BlockFormat::gptq:
      return "gptq";
    case BlockFormat::awq:
      return "awq";
    case BlockFormat::int8:
      return "int8";
    case BlockFormat::table4:
      return "table4";
    case BlockFormat::table8:
      return "table8";
    case BlockFormat::q4_0:
      return "q4_0";
    case BlockFormat::q4_1:
      return "q4_1";
    case BlockFormat::q5_0:
      return "q5_0";
    case BlockFormat::q5_1:
      return "q5_1";
    case BlockFormat::q8_0:
      return "q8_0";
    case BlockFormat::q2_k:
      return "q2_k";
    case BlockFormat::q3_k:
      return "q3_k";
    case BlockFormat::q4_k:
      return "q4_k";
    case BlockFormat::q5_k:
      return "q5_k";
    case BlockFormat::q6_k:
      return "q6_k";
    case BlockFormat::iq4_nl:
      return "iq4_nl";
  }
  return "";
}

std::string to_string(const BlockCodec& codec) {
  std::string text = fmt::format("{} {} scales {} blocks {}x{}", to_string(codec.format),
                                 to_string(codec.code_dtype), to_string(codec.scale_dtype),
                                 codec.block_rows, codec.block_cols);
  if (codec.bits != 8) text += fmt::format(" bits {}", codec.bits);
  if (codec.global_scale == GlobalScale::multiplies) text += " times a global scale";
  if (codec.global_scale == GlobalScale::divides) text += " over a global scale";
  if (codec.zero_points) text += " zero points";
  if (codec.group_index) text += fmt::format(" group index of {}", codec.groups);
  if (codec.zero_bias != 0) text += fmt::format(" zero bias {}", codec.zero_bias);
  if (codec.factor != 1) text += fmt::format(" factor {}", codec.factor);
  if (codec.offset != 0) text += fmt::format(" offset {}", codec.offset);
  return text;
}

}  // namespace weightloom
