// Test bench for Icarus Verilog: documents in, one line "cycle lane fingerprint" for each result.
//
// +words=FILE    64-bit words in hexadecimal, documents one after the other
// +count=N       how many words
// +key=HEX       key of the mixer, 0 if left out
// +select=N      which mixer, where MIXER = 3: 0 none, 1 light, 2 fmix64
// +before=N      cycles of words without an end before a reset of one cycle
// +static        document i goes to lane i mod N; else to the first lane that is free

`default_nettype none
`timescale 1ns / 1ns

module testbench #(
    parameter N = 8,
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter CAPACITY = 65536
);
    reg  [63:0] words [0:CAPACITY-1];
    integer     start [0:CAPACITY];     // of each document; one more than there are
    integer     position [0:N-1];       // of each lane in words, -1 between documents
    integer     next_document [0:N-1];  // of each lane under +static
    integer     dirty, count, n_documents, n_left, taken, cycle, idle, i, document;
    reg [8*256-1:0] file;

    reg         clk = 1'b0, rst = 1'b1, in_valid = 1'b0;
    reg  [63:0] key, in_word = 64'd0;
    reg  [1:0]  select;
    wire [2:0]  turn, out_lane;
    wire        out_valid, overflow;
    wire [63:0] out_fingerprint;

    fingerprint_engine #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED)
    ) engine (
        .clk(clk), .rst(rst), .key(key), .select(select), .turn(turn), .in_valid(in_valid), .in_word(in_word),
        .out_valid(out_valid), .out_lane(out_lane), .out_fingerprint(out_fingerprint),
        .overflow(overflow)
    );

    function has_nul(input [63:0] word);
        integer b;
        begin
            has_nul = 1'b0;
            for (b = 0; b < 8; b = b + 1) has_nul = has_nul | word[8*b+:8] == 8'd0;
        end
    endfunction

    task take_document(input integer lane);
        begin
            document = $test$plusargs("static") ? next_document[lane] : taken;
            if (document < n_documents) begin
                position[lane] = start[document];
                next_document[lane] = document + N;
                taken = taken + 1;
            end
        end
    endtask

    task give_word(input integer lane);
        begin
            if (position[lane] < 0) take_document(lane);
            in_valid = position[lane] >= 0;
            if (in_valid) begin
                in_word = words[position[lane]];
                position[lane] = has_nul(in_word) ? -1 : position[lane] + 1;
                n_left = n_left - 1;
            end
        end
    endtask

    initial begin
        if (!$value$plusargs("words=%s", file) || !$value$plusargs("count=%d", count)) begin
            $display("say +words=FILE and +count=N");
            $finish;
        end
        if (!$value$plusargs("key=%h", key)) key = 64'd0;
        if (!$value$plusargs("select=%d", select)) select = 2'd2;
        $readmemh(file, words, 0, count - 1);
        n_documents = 0;
        start[0] = 0;
        for (i = 0; i < count; i = i + 1)
            if (has_nul(words[i])) begin
                n_documents = n_documents + 1;
                start[n_documents] = i + 1;
            end
        for (i = 0; i < N; i = i + 1) begin
            position[i] = -1;
            next_document[i] = i;
        end
        taken = 0;
        n_left = count;
        idle = 0;

        repeat (2) @(negedge clk);
        if ($value$plusargs("before=%d", dirty)) begin
            rst = 1'b0;
            for (i = 0; i < dirty; i = i + 1) begin
                in_valid = turn < N;
                in_word = 64'h6162206364656667;
                @(negedge clk);
            end
            rst = 1'b1;
            @(negedge clk);
        end
        rst = 1'b0;
        // 40 cycles after the last word every register is empty.
        for (cycle = 0; n_left > 0 || idle < 40; cycle = cycle + 1) begin
            if (out_valid) $display("%0d %0d %h", cycle, out_lane, out_fingerprint);
            in_valid = 1'b0;
            if (turn < N) give_word(turn);
            idle = n_left > 0 ? 0 : idle + 1;
            @(negedge clk);
        end
        if (overflow) $display("overflow: a fingerprint was lost");
        $finish;
    end

    always #5 clk = ~clk;
endmodule

`default_nettype wire
