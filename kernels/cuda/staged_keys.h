#pragma once

#include <algorithm>

#include "kernels/cuda/attention.h"

// The keys and values of a token's attention in shared memory. All but the last were written when
// the launch before this one began, so that they are copied while that is under way: then scores
// wait for the query alone, and values, of which each sum is one chain, are not read from far away
// in the middle of it.
namespace assay::ASSAY_DEVICE {

// Elements of a head that a block of few keys sums: with the four runs that these lie in, one for
// each thread.
constexpr int kElementsPerBlock = 64;

// In words of 16 bytes: the query, the first `room` keys that are seen, and some elements of their
// values.
template <class Kv>
struct StagedKeys {
  static constexpr int kGroupThreads = 16;  // that copy a key, and a value
  static constexpr int kGroups = kAttentionThreads / kGroupThreads;
  static constexpr int kValueWords = kElementsPerBlock * Kv::kBytes / 16;
  static constexpr int kPadding = kThreadsOfKey<Kv>;  // spreads the keys of a warp over all banks
  static constexpr int kAtOnce = 16;                  // values, in add_values()
  static_assert(kAtOnce * kValueWords <= kAttentionThreads);

  Shared<uint4> words;
  int query_words;
  int key_words;
  int value_words;  // of the elements that there are
  int room;

  // How many keys find room in so many bytes, of at most `most`: none where 16 bytes do not hold
  // whole parts of one, or a block has too few threads for what the launch before it wrote.
  static int room_for(int64_t head_dim, int64_t most, size_t bytes) {
    const int64_t last_words = head_dim / 4 + head_dim / kPart<Kv> + kValueWords;
    if (head_dim % kPart<Kv> != 0 || last_words > kAttentionThreads) return 0;
    const int64_t left = static_cast<int64_t>(bytes / 16) - words_for(head_dim, 0);
    const int64_t room = left / (words_for(head_dim, 1) - words_for(head_dim, 0));
    return static_cast<int>(std::clamp<int64_t>(room, 0, most));
  }
  static size_t bytes(int64_t head_dim, int room) {
    return room == 0 ? 0 : static_cast<size_t>(words_for(head_dim, room)) * 16;
  }

  __device__ StagedKeys(const Shared<uint4>& all, int64_t head_dim, int n, int n_room)
      : words(all),
        query_words(static_cast<int>(head_dim) / 4),
        key_words(static_cast<int>(head_dim) / kPart<Kv>),
        value_words(n / kPart<Kv>),
        room(n_room) {}

  __device__ int key_at(int i) const { return query_words + i * (key_words + kPadding); }
  __device__ int value_at(int i) const {
    return query_words + room * (key_words + kPadding) + i * kValueWords;
  }

  // Begins to copy the keys and values [begin, end), of which the first stand at k and v, `stride`
  // bytes apart.
  __device__ void copy(const Global<const uint8_t>& k, const Global<const uint8_t>& v, int stride,
                       int begin, int end) const {
    const int own = static_cast<int>(threadIdx.x) % kGroupThreads;
    ASSAY_NO_UNROLL
    for (int i = begin + static_cast<int>(threadIdx.x) / kGroupThreads; i < end; i += kGroups) {
      const int at = i * stride;
      ASSAY_NO_UNROLL
      for (int w = own; w < key_words; w += kGroupThreads) {
        copy_to_shared(words, key_at(i) + w, k, at + w * 16);
      }
      if (own < value_words) copy_to_shared(words, value_at(i) + own, v, at + own * 16);
    }
  }

  // What the launch before this one writes, the query and the last key with its value if that is
  // staged, is copied by threads of one word each.
  struct OneCopy {
    Global<const uint8_t> from;
    int to;  // a word, or -1: nothing
  };
  __device__ OneCopy last_copy(const Global<const uint8_t>& q, const Global<const uint8_t>& k,
                               const Global<const uint8_t>& v, int stride, int begin,
                               int end) const {
    int w = static_cast<int>(threadIdx.x);
    if (room == 0) return {q, -1};
    if (w < query_words) return {q.from(w * 16), w};
    w -= query_words;
    if (begin == end) return {q, -1};
    if (w < key_words) return {k.from(int64_t{begin} * stride + w * 16), key_at(begin) + w};
    w -= key_words;
    if (w < value_words) return {v.from(int64_t{begin} * stride + w * 16), value_at(begin) + w};
    return {q, -1};
  }

  // store(i, score) for the keys [0, n), by all threads of the block.
  template <class Number, class Store>
  __device__ void score(int n, float scale, const Store& store) const {
    constexpr int kApart = kAttentionThreads / kThreadsOfKey<Kv>;
    const int own = static_cast<int>(threadIdx.x) % kThreadsOfKey<Kv>;
    ASSAY_NO_UNROLL
    for (int round = 0; round < n; round += kApart * kKeysAhead) {
      const int i = round + static_cast<int>(threadIdx.x) / kThreadsOfKey<Kv>;
      int at[kKeysAhead];
      Number lanes[kKeysAhead][kPart<Kv>] = {};
      ASSAY_UNROLL
      for (int k = 0; k < kKeysAhead; ++k) {
        at[k] = key_at(i + k * kApart < n ? i + k * kApart : n - 1);
      }
      ASSAY_UNROLL_BY_4
      for (int w = own; w < key_words; w += kThreadsOfKey<Kv>) {
        float query[kPart<Kv>];
        ASSAY_UNROLL
        for (int e = 0; e < kPart<Kv>; e += 4) {
          const auto four = word<float4>(w * (kPart<Kv> / 4) + e / 4);
          query[e] = four.x;
          query[e + 1] = four.y;
          query[e + 2] = four.z;
          query[e + 3] = four.w;
        }
        ASSAY_UNROLL
        for (int k = 0; k < kKeysAhead; ++k) {
          add_part<Kv, true>(word<uint4>(at[k] + w), query, kPart<Kv>, lanes[k]);
        }
      }
      ASSAY_UNROLL
      for (int k = 0; k < kKeysAhead; ++k) {
        const Number sum = sum_of_parts(lanes[k]);
        if (own == 0 && i + k * kApart < n) store(i + k * kApart, sum * scale);
      }
    }
  }

  // `sum` and weights[i] * element `element` of value i, for i in [begin, end): one chain, of
  // kAtOnce keys in each turn, so that the last one reads behind the end: see end_values().
  template <class Number>
  __device__ Number add_values(const Shared<Number>& weights, int begin, int end, int element,
                               Number sum) const {
    const auto turn = [&](int first, auto is_whole) {
      float values[kAtOnce];
      Number own[kAtOnce];
      ASSAY_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        values[k] = value(first + k, element);
        own[k] = weights[first + k];
      }
      ASSAY_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const Number added = add_product(own[k], values[k], sum);
        sum = decltype(is_whole)::value || k < end - first ? added : sum;
      }
    };
    ASSAY_NO_UNROLL
    for (; end - begin >= kAtOnce; begin += kAtOnce) turn(begin, std::true_type{});
    if (begin < end) turn(begin, std::false_type{});
    return sum;
  }

  // Something stands behind n values, and behind the weights of n_keys.
  template <class Number>
  __device__ void end_values(int n, const Shared<Number>& weights, int n_keys) const {
    const auto own = static_cast<int>(threadIdx.x);
    if (own < kAtOnce * kValueWords) words[value_at(n) + own] = uint4{0, 0, 0, 0};
    if (own < kAtOnce) weights[n_keys + own] = Number{};
  }

 private:
  static int64_t words_for(int64_t head_dim, int64_t keys) {
    return head_dim / 4 + keys * (head_dim / kPart<Kv> + kPadding) + (keys + kAtOnce) * kValueWords;
  }
  template <class Word>
  __device__ Word word(int i) const {
    return load_as<Word>(reinterpret_cast<const uint8_t*>(range_of(words, i, 1)));
  }
  __device__ float value(int i, int element) const {
    const int byte = element * Kv::kBytes;
    const int at = value_at(i) + byte / 16;
    return Kv::value(reinterpret_cast<const uint8_t*>(range_of(words, at, 1)) + byte % 16);
  }
};

}  // namespace assay::ASSAY_DEVICE
