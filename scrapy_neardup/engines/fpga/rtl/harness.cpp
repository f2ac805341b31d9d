// Runs documents through the Verilated fingerprint engine, for Python's ctypes.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "Vfingerprint_engine.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr uint64_t FLOOR = 7;       // characters before the NUL, at least
constexpr int IDLE_CYCLES = 64;     // after the last word every register is empty

// The words of one document as the channel delivers them.
class Document {
public:
    Document() = default;
    Document(const uint8_t* text, uint64_t length) : text_(text), length_(length), next_(0) {}

    bool ended() const { return next_ > std::max(length_, FLOOR); }

    uint64_t word() {
        uint64_t word = 0;
        for (int i = 0; i < 8; ++i, ++next_) word |= static_cast<uint64_t>(at(next_)) << 8 * i;
        return word;
    }

private:
    uint8_t at(uint64_t i) const { return i < length_ ? text_[i] : i < FLOOR ? ' ' : 0; }

    const uint8_t* text_ = nullptr;
    uint64_t length_ = 0;
    uint64_t next_ = FLOOR + 1;     // no document: ended
};

void clock(Vfingerprint_engine& engine) {
    engine.clk = 1;
    engine.eval();
    engine.clk = 0;
    engine.eval();
}

}  // namespace

// Texts of one run, text i = bytes[offsets[i]] up to bytes[offsets[i + 1]]. With is_static
// text i goes to lane i mod n_lanes, else to the first lane that is free. Writes the fingerprint,
// lane and cycle of each text that got one. Returns the cycle in which a fingerprint came for
// which no text was waiting, else -2 if the engine raised its flag `overflow`, else -1.
extern "C" int64_t neardup_run(const uint8_t* bytes, const uint64_t* offsets, uint64_t n_texts,
                               uint64_t key, int n_lanes, int is_static, uint64_t* fingerprints,
                               uint8_t* lanes, int64_t* cycles) {
    VerilatedContext context;
    Vfingerprint_engine engine(&context);
    engine.key = key;
    engine.select = 0;
    engine.in_valid = 0;
    engine.rst = 1;
    clock(engine);
    engine.rst = 0;

    std::vector<Document> documents(n_lanes);
    std::vector<std::deque<uint64_t>> expected(n_lanes);    // texts whose fingerprint is to come
    std::vector<uint64_t> next(n_lanes);
    for (int lane = 0; lane < n_lanes; ++lane) next[lane] = lane;
    uint64_t taken = 0;
    int64_t cycle = 0;

    for (int idle = 0; idle < IDLE_CYCLES; ++cycle, ++idle) {
        if (engine.out_valid) {
            if (engine.out_lane >= n_lanes) return cycle;
            auto& waiting = expected[engine.out_lane];
            if (waiting.empty()) return cycle;
            const uint64_t text = waiting.front();
            waiting.pop_front();
            fingerprints[text] = engine.out_fingerprint;
            lanes[text] = engine.out_lane;
            cycles[text] = cycle;
        }
        const int lane = engine.turn;
        engine.in_valid = 0;
        if (lane < n_lanes) {
            uint64_t& text = is_static ? next[lane] : taken;
            if (documents[lane].ended() && text < n_texts) {
                documents[lane] = Document(bytes + offsets[text], offsets[text + 1] - offsets[text]);
                expected[lane].push_back(text);
                text += is_static ? n_lanes : 1;
            }
            if (!documents[lane].ended()) {
                engine.in_word = documents[lane].word();
                engine.in_valid = 1;
                idle = 0;
            }
        }
        clock(engine);
    }
    const bool overflow = engine.overflow;
    engine.final();
    return overflow ? -2 : -1;
}
