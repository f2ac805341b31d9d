// The FPGA paper's software experiment: simhash as in its Figure 8, by threads that share documents
// or the words of one document.
//
//   multithreading FILE document|word THREADS     prints seconds; FILE: documents, each ends with NUL

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

uint64_t sdbm(std::string_view word) {
    uint64_t hash = 0;
    for (unsigned char c : word) hash = c + (hash << 6) + (hash << 16) - hash;
    return hash;
}

struct Votes {
    int64_t counters[64] = {};

    void add(uint64_t hash) {
        for (int i = 0; i < 64; ++i) counters[i] += hash >> i & 1 ? 1 : -1;
    }

    uint64_t fingerprint() const {
        uint64_t bits = 0;
        for (int i = 0; i < 64; ++i) bits |= uint64_t{counters[i] > 0} << i;
        return bits;
    }
};

// Calls `take` with each word of a document.
template <class Take>
void each_word(std::string_view text, Take take) {
    for (size_t start = 0, end; start < text.size(); start = end + 1) {
        end = std::min(text.find(' ', start), text.size());
        if (end > start) take(text.substr(start, end - start));
    }
}

void in_threads(int n_threads, const auto& work) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < n_threads; ++i) threads.emplace_back(work, i);
}

using Documents = std::vector<std::string_view>;

void by_document(const Documents& documents, int n_threads, std::vector<uint64_t>& fingerprints) {
    std::atomic<size_t> next = 0;
    in_threads(n_threads, [&](int) {
        for (size_t i; (i = next++) < documents.size();) {
            Votes votes;
            each_word(documents[i], [&](std::string_view word) { votes.add(sdbm(word)); });
            fingerprints[i] = votes.fingerprint();
        }
    });
}

// One thread cuts a document and counts the votes; all hash its words, one at a time.
void by_word(const Documents& documents, int n_threads, std::vector<uint64_t>& fingerprints) {
    std::vector<std::string_view> words;
    std::vector<uint64_t> hashes;
    std::atomic<size_t> next = 0;
    std::barrier together(n_threads);
    in_threads(n_threads, [&](int thread) {
        for (size_t i = 0; i < documents.size(); ++i) {
            if (thread == 0) {
                words.clear();
                each_word(documents[i], [&](std::string_view word) { words.push_back(word); });
                hashes.resize(words.size());
                next = 0;
            }
            together.arrive_and_wait();
            for (size_t j; (j = next++) < words.size();) hashes[j] = sdbm(words[j]);
            together.arrive_and_wait();
            if (thread == 0) {
                Votes votes;
                for (uint64_t hash : hashes) votes.add(hash);
                fingerprints[i] = votes.fingerprint();
            }
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    std::ifstream file(argv[1], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Documents documents;
    for (size_t start = 0, end; start < text.size(); start = end + 1) {
        end = text.find('\0', start);
        documents.emplace_back(text.data() + start, end - start);
    }
    std::vector<uint64_t> fingerprints(documents.size());
    const auto strategy = std::string(argv[2]) == "word" ? by_word : by_document;
    const auto began = std::chrono::steady_clock::now();
    strategy(documents, std::atoi(argv[3]), fingerprints);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    uint64_t all = 0;
    for (uint64_t fingerprint : fingerprints) all = all * 31 + fingerprint;
    std::printf("%.4f %016llx\n", taken.count(), static_cast<unsigned long long>(all));
}
