// A board that is simulated: ulx3s.v under Verilator, its serial line at a pseudo-terminal.
//
// Prints the terminal's path, which a host opens like a serial port, and runs until its standard
// input ends. What the host writes goes onto the line bit by bit, and what the design sends is read
// off it bit by bit. While the line is idle the clock stands still for most of the time.

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>

#include "Vulx3s.h"
#include "verilated.h"

namespace {

constexpr int IDLE_BITS = 400;  // cycles of silence, in bits, after which the clock waits for the host

class Line {
public:
    explicit Line(int terminal) : terminal_(terminal) {
        top_.ftdi_txd = 1;
        bits(8);
    }

    // One bit's time; a byte of the host goes on as it comes.
    void step() {
        if (to_send_ == 0 && next_byte()) silent_ = 0;
        top_.ftdi_txd = to_send_ ? sending_ & 1 : 1;
        if (to_send_) {
            sending_ >>= 1;
            to_send_--;
        }
        bits(1);
        silent_++;
    }

    bool idle() const { return silent_ > IDLE_BITS; }

    // At most so many milliseconds, for the host or for the end of standard input.
    bool wait(int milliseconds) {
        pollfd both[2] = {{terminal_, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        poll(both, 2, milliseconds);
        char end;
        if (both[1].revents != 0 && read(STDIN_FILENO, &end, 1) <= 0) return false;
        if (both[0].revents & POLLIN) silent_ = 0;
        else if (both[0].revents & POLLHUP) usleep(1000 * milliseconds);  // no host has it open
        return true;
    }

private:
    bool next_byte() {
        if (at_ == held_) {
            ssize_t n = read(terminal_, buffer_, sizeof buffer_);
            if (n <= 0) return false;
            held_ = n;
            at_ = 0;
        }
        sending_ = 0x200 | buffer_[at_++] << 1;  // stop bit, data, start bit
        to_send_ = 10;
        return true;
    }

    void bits(int n) {
        for (int i = 0; i < n * DIVISOR; i++) {
            top_.clk_25mhz = 1;
            top_.eval();
            top_.clk_25mhz = 0;
            top_.eval();
            receive();
        }
    }

    // The design's line, sampled in the middle of each bit.
    void receive() {
        if (to_receive_ == 0) {
            if (top_.ftdi_rxd) return;
            to_receive_ = 9;
            wait_for_ = DIVISOR + DIVISOR / 2;
            received_ = 0;
            return;
        }
        if (--wait_for_ > 0) return;
        wait_for_ = DIVISOR;
        silent_ = 0;
        if (--to_receive_ > 0) received_ = received_ >> 1 | top_.ftdi_rxd << 7;
        else if (top_.ftdi_rxd && write(terminal_, &received_, 1) != 1) perror("terminal");
    }

    Vulx3s top_;
    int terminal_;
    unsigned char buffer_[4096];
    ssize_t held_ = 0, at_ = 0;
    unsigned sending_ = 0;
    unsigned char received_ = 0;
    int to_send_ = 0, to_receive_ = 0, wait_for_ = 0, silent_ = 0;
};

}  // namespace

int main() {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) {
        perror("pseudo-terminal");
        return 1;
    }
    // Held open here, too: without a host the terminal would hang up.
    int kept = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    termios raw;
    if (kept < 0 || tcgetattr(kept, &raw)) {
        perror("pseudo-terminal");
        return 1;
    }
    cfmakeraw(&raw);
    tcsetattr(kept, TCSANOW, &raw);
    puts(ptsname(terminal));
    fflush(stdout);

    Line line(terminal);
    while (line.wait(line.idle() ? 1000 : 0))
        for (int i = 0; i < 256; i++) line.step();
}
