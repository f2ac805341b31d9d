// What Yosys and ABC prove of the engine: no arrival pattern loses or doubles a fingerprint.
//
// In any cycle a word may come or not, with letters, spaces and NULs anywhere, but no NUL in
// the first FLOOR characters of a document. Then every document of any one lane gives one
// fingerprint of that lane in time, and overflow never rises. README.md has the command.

`default_nettype none

module no_loss #(
    parameter N = 8,
    parameter BYTES = 1,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter FLOOR = 7
) (
    input wire       clk,
    input wire       in_valid,
    input wire [7:0] nul,       // of each character of the word
    input wire [7:0] space,
    input wire [2:0] any_lane,
    input wire       any_document
);
    localparam STAGES = MIXER == 0 ? 0 : MIXER == 1 ? 3 : 10;
    // From the fetch of a document's last word: its characters, four registers, the mixer
    // with its turn, and the other lanes at the output.
    localparam [5:0] LATEST = 8 / BYTES + 4 + STAGES + (STAGES != 0 & BYTES == 1) + N - 1;

    reg         rst = 1'b1, started = 1'b0;
    reg  [2:0]  lane;                   // the one that is watched
    reg [N-1:0] fresh = {N{1'b1}};      // the next word begins a document
    wire [2:0]  turn, out_lane;
    wire        out_valid, overflow;
    wire [63:0] in_word;

    genvar i;
    generate
        for (i = 0; i < 8; i = i + 1) begin : characters
            assign in_word[8*i+:8] = nul[i] ? 8'd0 : space[i] ? 8'd32 : 8'd97;
        end
    endgenerate

    fingerprint_engine #(.N(N), .BYTES(BYTES), .MIXER(MIXER), .SLOTS(SLOTS)) engine (
        .clk(clk), .rst(rst), .key(64'd0), .turn(turn), .in_valid(in_valid), .in_word(in_word),
        .out_valid(out_valid), .out_lane(out_lane), .out_fingerprint(), .overflow(overflow)
    );

    // ---- The watched lane's documents on the way, and any one of them in particular.
    wire [8:0] floor = (9'd1 << FLOOR) - 9'd1;
    wire       ends = ~rst & in_valid & turn == lane & |nul;
    wire       comes = ~rst & out_valid & out_lane == lane;
    reg  [2:0] due = 3'd0;          // fingerprints to come
    reg        watching = 1'b0;     // one of them in particular
    reg  [2:0] ahead;               // and those before it
    reg  [5:0] age;                 // cycles since the fetch of its last word

    always @(posedge clk) begin
        rst     <= 1'b0;
        started <= 1'b1;
        lane    <= started ? lane : any_lane;
        if (~rst & in_valid) fresh[turn] <= |nul;
        due <= due + {2'd0, ends} - {2'd0, comes};
        if (watching) begin
            age      <= age + 6'd1;
            ahead    <= ahead - {2'd0, comes};
            watching <= ~(comes & ahead == 3'd0);
        end else if (ends & any_document) begin
            age      <= 6'd1;
            ahead    <= due - {2'd0, comes};
            watching <= 1'b1;
        end

        assume (any_lane < N);
        assume (~in_valid | turn < N);
        assume (~(in_valid & fresh[turn] & |({1'b0, nul} & floor)));
        assert (rst | ~overflow);
        assert (~(comes & due == 3'd0));        // none is doubled or made up
        assert (~(watching & age > LATEST));    // none is lost, none is late
    end
endmodule

`default_nettype wire
