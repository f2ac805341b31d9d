// The core for a Wishbone bus (B4, classic cycles, 32 bits): the registers of registers.v at 0x00,
// and a window on the two streams of simhash.v at 0x40.
//
//   0x40 DATA_LOW     of the next beat
//   0x44 DATA_HIGH
//   0x48 SEND         write: hand the beat over; 7:0 tkeep, 8 tlast, 31:16 tid. The bus waits until
//                     the core takes it
//   0x4c WAITING      read: 1 if a result waits
//   0x50 RESULT_LOW   of the result that waits
//   0x54 RESULT_HIGH
//   0x58 RESULT_TAG   15:0 tid, 18:16 tuser; reading it takes the result away
//
// `err` answers what is refused: a key or a mixer while the core is busy, a tag that is not there.

`default_nettype none

module simhash_wishbone #(
    parameter N = 8,        // all as in simhash_stream.v; ID up to 16
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter ID = 8,
    parameter QUEUE = 4,
    parameter RESULTS = 5
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        cyc,
    input  wire        stb,
    input  wire        we,
    input  wire [6:0]  adr,             // in bytes; the lowest two bits are ignored
    input  wire [3:0]  sel,
    input  wire [31:0] dat_w,
    output reg  [31:0] dat_r,
    output reg         ack,
    output reg         err
);
    wire        refused, s_tready, m_tvalid;
    wire [63:0] m_tdata;
    wire [ID-1:0] m_tid;
    wire [2:0]  m_tuser;
    wire [31:0] read_data;
    reg  [63:0] data;
    wire        unused = &{1'b0, adr[1:0], dat_w};

    generate
        if (ID > 16) begin : ids
            ID_must_be_1_to_16_on_Wishbone refused ();
        end
    endgenerate

    // A transfer is answered in the cycle after it was carried out, and not carried out twice.
    wire       asked = cyc & stb & ~ack & ~err & ~rst;
    wire       is_window = adr[6];
    wire [2:0] place = adr[4:2];
    wire       is_send = asked & we & is_window & place == 3'd2;
    wire       is_tag = asked & ~we & is_window & place == 3'd6;
    wire       sent = is_send & s_tready;
    wire       fails = is_window ? is_tag & ~m_tvalid : we & refused;
    wire [15:0] tag = {{(16 - ID) {1'b0}}, m_tid};

    always @(posedge clk) begin
        ack <= asked & ~fails & (~is_send | sent);
        err <= asked & fails;
        if (asked & we & is_window & place == 3'd0) data[31:0] <= dat_w;
        if (asked & we & is_window & place == 3'd1) data[63:32] <= dat_w;
        if (!is_window) dat_r <= read_data;
        else
            case (place)
                3'd3: dat_r <= {31'd0, m_tvalid};
                3'd4: dat_r <= m_tdata[31:0];
                3'd5: dat_r <= m_tdata[63:32];
                3'd6: dat_r <= {13'd0, m_tuser, tag};
                default: dat_r <= 32'd0;
            endcase
        if (rst) {ack, err} <= 0;
    end

    simhash #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED), .ID(ID),
        .QUEUE(QUEUE), .RESULTS(RESULTS)
    ) core (
        .clk(clk), .rst(rst), .write(asked & we & ~is_window), .write_address(adr[5:2]),
        .write_data(dat_w), .write_strobe(sel), .refused(refused),
        .read_address(adr[5:2]), .read_data(read_data),
        .s_tvalid(is_send), .s_tready(s_tready), .s_tdata(data),
        .s_tkeep(dat_w[7:0]), .s_tlast(dat_w[8]), .s_tid(dat_w[16+:ID]),
        .m_tvalid(m_tvalid), .m_tready(is_tag), .m_tdata(m_tdata), .m_tid(m_tid),
        .m_tuser(m_tuser)
    );
endmodule

`default_nettype wire
