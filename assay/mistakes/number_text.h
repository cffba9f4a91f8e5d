#pragma once

#include <string>

namespace assay::mistakes {

// A number with so many significant digits, or as many more as tell it from `other`: a factor of
// 1.0001 is not "1".
std::string number_unlike(double value, double other, int digits = 4);

}  // namespace assay::mistakes
