// Registers of the core, 32 bits each, behind any bus.
//
//   0x00 IDENTITY   "NDUP", 0x4e445550
//   0x04 DESIGN     N, BYTES << 4, MIXER << 8, TIE_GE << 12, SLOTS << 13, SHARED << 14, CW << 16, ID << 24
//   0x08 CONTROL    write 1: reset the engine and what is in it; the key and the mixer stay
//   0x0c STATUS     0 busy, 1 blocked by more than N interleaved documents, 2 a result was lost
//   0x10 KEY_LOW    of the mixer; key and mixer are refused while the core is busy
//   0x14 KEY_HIGH
//   0x18 MIXER      0 none, 1 light, 2 fmix64; only with MIXER = 3 may it be written
//   0x20 CYCLES     clock cycles; this and what follows count from reset and wrap
//   0x24 DOCUMENTS  that took a lane
//   0x28 RESULTS    that left
//   0x2c IN_STALLS  cycles in which a beat waited for the core
//   0x30 LANE_STALLS  turns of lanes that were lost because no place was free for a result
//   0x34 OUT_STALLS cycles in which a result waited for its receiver

`default_nettype none

module registers #(
    parameter N = 8,        // as in simhash_stream.v
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter ID = 8
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        write,
    input  wire [5:2]  write_address,
    input  wire [31:0] write_data,
    input  wire [3:0]  write_strobe,
    output wire        refused,         // in the cycle of `write`: nothing was written
    input  wire [5:2]  read_address,
    output reg  [31:0] read_data,       // at once
    output reg         engine_rst,
    output reg  [63:0] key,
    output reg  [1:0]  select,
    input  wire        busy,
    input  wire        blocked,
    input  wire        lost,
    input  wire        started,
    input  wire        in_stalled,
    input  wire        lane_stalled,
    input  wire        out_stalled,
    input  wire        left             // a result was taken
);
    localparam [31:0] IDENTITY = 32'h4e445550;
    localparam [31:0] DESIGN = N | BYTES << 4 | MIXER << 8 | TIE_GE << 12 | SLOTS << 13
                             | SHARED << 14 | CW << 16 | ID << 24;
    localparam [31:0] FIXED = MIXER;
    localparam [1:0]  FIRST = MIXER == 3 ? 2'd2 : FIXED[1:0];

    wire [31:0] mask = {{8{write_strobe[3]}}, {8{write_strobe[2]}},
                        {8{write_strobe[1]}}, {8{write_strobe[0]}}};
    wire [31:0] data = write_data & mask;
    wire is_control = write_address == 4'h2, is_low = write_address == 4'h4;
    wire is_high = write_address == 4'h5, is_mixer = write_address == 4'h6;
    wire is_key = is_low | is_high;
    wire known_mixer = MIXER == 3 & write_strobe[0] & write_data[1:0] != 2'd3 & data[31:2] == 0;

    assign refused = ~(is_control | (is_key & ~busy) | (is_mixer & ~busy & known_mixer));
    wire accepted = write & ~refused;

    always @(posedge clk) begin
        engine_rst <= rst | (accepted & is_control & data[0]);
        if (accepted & is_low) key[31:0] <= (key[31:0] & ~mask) | data;
        if (accepted & is_high) key[63:32] <= (key[63:32] & ~mask) | data;
        if (accepted & is_mixer) select <= data[1:0];
        if (rst) begin
            key    <= 64'd0;
            select <= FIRST;
        end
    end

    reg [31:0] cycles, documents, results, in_stalls, lane_stalls, out_stalls;
    always @(posedge clk) begin
        cycles      <= cycles + 32'd1;
        documents   <= documents + {31'd0, started};
        results     <= results + {31'd0, left};
        in_stalls   <= in_stalls + {31'd0, in_stalled};
        lane_stalls <= lane_stalls + {31'd0, lane_stalled};
        out_stalls  <= out_stalls + {31'd0, out_stalled};
        if (rst | engine_rst) begin
            {cycles, documents, results, in_stalls, lane_stalls, out_stalls} <= 0;
        end
    end

    always @* begin
        case (read_address)
            4'h0: read_data = IDENTITY;
            4'h1: read_data = DESIGN;
            4'h3: read_data = {29'd0, lost, blocked, busy};
            4'h4: read_data = key[31:0];
            4'h5: read_data = key[63:32];
            4'h6: read_data = {30'd0, select};
            4'h8: read_data = cycles;
            4'h9: read_data = documents;
            4'ha: read_data = results;
            4'hb: read_data = in_stalls;
            4'hc: read_data = lane_stalls;
            4'hd: read_data = out_stalls;
            default: read_data = 32'd0;
        endcase
    end
endmodule

`default_nettype wire
