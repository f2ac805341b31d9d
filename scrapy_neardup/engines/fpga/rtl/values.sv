// What a core computes, proved for all time against the words of the paper: with one and with
// two characters a cycle. README.md has the command.
//
// A letter makes the hash c + (h << 6) + (h << 16) - h. A space or NUL ends a word, if there is one:
// its hash is voted and the hash restarts; what follows a NUL in its pair is no part of the document.
// A vote takes each counter of zeros up or down by one. A document that ends gives the signs of its
// counters, or a one for a tie where TIE_GE says so and there was a word, and they restart.

`default_nettype none

module values_core #(
    parameter BYTES = 1,
    parameter CW = 4,
    parameter TIE_GE = 0
) (
    input wire               clk,
    input wire               rst_in,
    input wire               chars_valid,
    input wire [8*BYTES-1:0] chars,
    input wire               feature_valid,
    input wire               feature_last,
    input wire [63:0]        feature
);
    function [63:0] sdbm(input [63:0] h, input [7:0] c);
        // Added up as the cores do for two characters: that the sums are equal is proved for one.
        if (BYTES == 2) sdbm = ((h << 16) | {56'd0, c}) + (h << 6) - h;
        else sdbm = {56'd0, c} + (h << 6) + (h << 16) - h;
    endfunction
    // 65599 * c0 + c1, and two steps at once: 65599**2 * h + 65599 * c0 + c1. sdbm is 65599 * h + c, so
    // that the two are the same, modulo 2**64, is a matter of multiplying 65599 by itself.
    function [63:0] pair_sum(input [7:0] c0, input [7:0] c1);
        pair_sum = ({56'd0, c0} << 16) + ({56'd0, c0} << 6) - {56'd0, c0} + {56'd0, c1};
    endfunction
    function [63:0] sdbm_twice(input [63:0] h, input [63:0] sum);
        sdbm_twice = ((h << 32) | sum) + (h << 23) - (h << 17) + (h << 12) - (h << 7) + h;
    endfunction
    function is_letter(input [7:0] c);
        is_letter = c != 8'd0 & c != 8'd32;
    endfunction

    reg  past = 1'b0;       // a cycle has been since reset
    wire rst = ~past | rst_in;
    wire word_valid, word_last, closing;
    wire [63:0] word_hash, fingerprint;

    simhash_core #(.CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE)) core (
        .clk(clk), .rst(rst), .chars_valid(chars_valid), .chars(chars),
        .word_valid(word_valid), .word_last(word_last), .word_hash(word_hash),
        .feature_valid(feature_valid), .feature_last(feature_last), .feature(feature),
        .closing(closing), .fingerprint(fingerprint)
    );

    // ---- Words. `due` is what the core has to show: in the next cycle, or with pairs a cycle later.
    (* hierconn *) wire [63:0] \core.hash  ;
    (* hierconn *) wire [7:0] \core.two.first , \core.two.second ;
    (* hierconn *) wire [63:0] \core.two.both ;
    (* hierconn *) wire \core.in_word , \core.two.valid , \core.two.last ;
    (* hierconn *) wire \core.two.letter0 , \core.two.letter1 ;
    wire [63:0] hash = \core.hash ;
    reg  [63:0] right = 64'd0, due_hash;
    reg         open = 1'b0, due_valid = 1'b0, due_last = 1'b0;
    reg         shown_valid = 1'b0, shown_last = 1'b0;

    integer     k;
    reg  [63:0] h, ended;
    reg         in_word, ends, last;
    always @* begin
        h = right;
        in_word = open;
        ends = 1'b0;
        last = 1'b0;
        ended = 64'd0;
        for (k = 0; k < BYTES; k = k + 1)
            if (!last) begin
                if (is_letter(chars[8*k+:8])) begin
                    h = sdbm(h, chars[8*k+:8]);
                    in_word = 1'b1;
                end else begin
                    if (in_word) begin
                        ends  = 1'b1;
                        ended = h;
                    end
                    h = 64'd0;
                    in_word = 1'b0;
                    last = chars[8*k+:8] == 8'd0;
                end
            end
    end

    always @(posedge clk) begin
        past        <= 1'b1;
        due_valid   <= chars_valid & ends & ~rst;
        due_last    <= chars_valid & last & ~rst;
        due_hash    <= ended;
        shown_valid <= due_valid & ~rst;
        shown_last  <= due_last & ~rst;
        if (chars_valid) begin
            right <= h;
            open  <= in_word;
        end
        if (rst) begin
            right <= 64'd0;
            open  <= 1'b0;
        end
    end

    generate
        if (BYTES == 1) begin : one
            always @* if (past) begin
                assert (hash == right);
                assert (\core.in_word == open);
                assert (word_valid == due_valid);
                assert (word_last == due_last);
                assert (~due_valid | word_hash == due_hash);
            end
        end else begin : two
            // The pair before this one is still in the core's registers.
            reg        before_open = 1'b0, held = 1'b0;
            reg [63:0] expected = 64'd0, expected_word;
            reg [15:0] pair;
            always @(posedge clk) begin
                pair <= chars;
                held <= chars_valid & ~rst;
                before_open <= ~rst & open;
            end
            wire [7:0] c0 = pair[7:0], c1 = pair[15:8];
            wire       letter0 = is_letter(c0), letter1 = is_letter(c1) & c0 != 8'd0;
            // One pair further, with the core's own registers, which are asserted to hold the pair.
            wire [63:0] c0_more = sdbm(hash, \core.two.first );
            always @(posedge clk) begin
                expected_word <= letter0 ? c0_more : hash;
                expected <= rst ? 64'd0 : !held ? hash : !letter1 ? 64'd0 : !letter0 ? {56'd0, c1}
                          : sdbm_twice(hash, \core.two.both );
            end
            always @* if (past) begin
                assert (\core.two.valid == held);
                assert (\core.two.last == due_last);
                assert (~held | (\core.two.letter0 == letter0 & \core.two.letter1 == letter1));
                assert (~held | (\core.two.first == c0 & \core.two.second == c1));
                assert (~held | \core.two.both == pair_sum(c0, c1));
                assert (hash == expected);
                assert (~shown_valid | word_hash == expected_word);
                assert (\core.in_word == before_open);
                assert (open == (held ? letter1 : before_open));
                assert (due_valid == (held & (before_open | letter0) & ~(letter0 & letter1)));
                assert (word_valid == shown_valid);
                assert (word_last == shown_last);
            end
        end
    endgenerate

    // ---- Votes and signs, of one bit: all are alike.
    (* hierconn *) wire [CW-1:0] \core.own.counters.bits[0].zeros ;
    (* hierconn *) wire          \core.own.counters.any_word ;
    wire [CW-1:0] zeros = \core.own.counters.bits[0].zeros ;
    reg  [CW-1:0] counter = {CW{1'b0}};
    reg           any = 1'b0, sign = 1'b0, came = 1'b0, ending = 1'b0;
    wire [CW-1:0] counted = feature_valid ? feature[0] ? counter - 1'b1 : counter + 1'b1 : counter;
    wire          any_word = any | feature_valid;
    wire          closes = BYTES == 1 ? ending : feature_last;
    wire [CW-1:0] final_count = BYTES == 1 ? counter : counted;
    wire          final_any = BYTES == 1 ? any : any_word;

    always @(posedge clk) begin
        ending  <= feature_last & ~rst;
        came    <= closes & ~rst;
        if (closes) sign <= final_count[CW-1] | (TIE_GE != 0 & final_any & final_count == 0);
        counter <= rst | closes ? {CW{1'b0}} : counted;
        any     <= ~(rst | closes) & any_word;
    end
    always @* if (past) begin
        // One character a cycle: no word can be voted in the cycle after a NUL.
        if (BYTES == 1) assume (~(ending & feature_valid));
        assert (closing == closes);
        assert (zeros == counter);
        assert (\core.own.counters.any_word == any);
        assert (any | counter == 0);    // for the induction: a first vote makes no tie
        assert (~came | fingerprint[0] == sign);
    end
endmodule

`default_nettype wire
