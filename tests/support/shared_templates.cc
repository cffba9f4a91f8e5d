// Templates of the standard library that tests and the libraries both instantiate. The linker keeps
// the first copy of each for all of the program, and these objects come first: without them the
// libraries would run the copies of the tests' sources, which are compiled at -O0.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

template class std::basic_string<char>;
template class std::set<std::string>;
template class std::vector<double>;
template class std::vector<float>;
template class std::vector<int32_t>;
template class std::vector<int64_t>;
template class std::vector<std::string>;
