// The one notation for layouts, in docs, dumps and tests.
//
//   (2, 6):[0<-s0+0 (2:6<-3, 3:1<-1); 3<-s1+0 (2:6<-3, 3:1<-1)]      two tensors [2, 3] side by
//   side (4):[0<-s0+0 (3:1<-1); 3<-pad(0)]                                a padded row
//
// A region is  target_offset<-sSOURCE+source_offset (extent:target_stride<-source_stride, …);
// without axes it is one element. A pad's axes are (extent:target_stride).
#pragma once

#include <string>
#include <string_view>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

std::string to_string(const Region& region);  ///< A region in the notation.
std::string to_string(const Layout& layout);  ///< A layout in the notation.
/// Law: parse_layout(to_string(a)) has a's shape and regions.
/// Errors: format, with the position; usage as Layout::make.
Layout parse_layout(std::string_view text);

}  // namespace weightloom
