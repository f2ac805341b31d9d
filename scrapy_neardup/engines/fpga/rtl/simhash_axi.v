// The core for a bus: AXI4-Stream in and out, registers over AXI4-Lite (simhash.v). A write that is
// refused answers SLVERR.

`default_nettype none

module simhash_axi #(
    parameter N = 8,        // all as in simhash_stream.v
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
    input  wire          aclk,
    input  wire          aresetn,

    input  wire          s_axis_tvalid,
    output wire          s_axis_tready,
    input  wire [63:0]   s_axis_tdata,
    input  wire [7:0]    s_axis_tkeep,
    input  wire          s_axis_tlast,
    input  wire [ID-1:0] s_axis_tid,

    output wire          m_axis_tvalid,
    input  wire          m_axis_tready,
    output wire [63:0]   m_axis_tdata,
    output wire [7:0]    m_axis_tkeep,
    output wire          m_axis_tlast,
    output wire [ID-1:0] m_axis_tid,
    output wire [2:0]    m_axis_tuser,

    input  wire          s_axil_awvalid,
    output wire          s_axil_awready,
    input  wire [5:0]    s_axil_awaddr,
    input  wire [2:0]    s_axil_awprot,
    input  wire          s_axil_wvalid,
    output wire          s_axil_wready,
    input  wire [31:0]   s_axil_wdata,
    input  wire [3:0]    s_axil_wstrb,
    output reg           s_axil_bvalid,
    input  wire          s_axil_bready,
    output reg  [1:0]    s_axil_bresp,
    input  wire          s_axil_arvalid,
    output wire          s_axil_arready,
    input  wire [5:0]    s_axil_araddr,
    input  wire [2:0]    s_axil_arprot,
    output reg           s_axil_rvalid,
    input  wire          s_axil_rready,
    output reg  [31:0]   s_axil_rdata,
    output wire [1:0]    s_axil_rresp
);
    localparam [1:0] OKAY = 2'b00, SLVERR = 2'b10;

    wire        rst = ~aresetn;
    wire        refused;
    wire [31:0] read_data;
    wire        unused = &{1'b0, s_axil_awprot, s_axil_arprot,
                           s_axil_awaddr[1:0], s_axil_araddr[1:0]};

    // Address and data of a write are taken together, once the last answer has left.
    wire write = s_axil_awvalid & s_axil_wvalid & ~s_axil_bvalid;
    assign s_axil_awready = write;
    assign s_axil_wready  = write;
    assign s_axil_arready = ~s_axil_rvalid;
    assign s_axil_rresp   = OKAY;

    always @(posedge aclk) begin
        if (write) s_axil_bresp <= refused ? SLVERR : OKAY;
        s_axil_bvalid <= write | (s_axil_bvalid & ~s_axil_bready);
        if (s_axil_arready) s_axil_rdata <= read_data;
        s_axil_rvalid <= s_axil_arvalid | (s_axil_rvalid & ~s_axil_rready);
        if (rst) {s_axil_bvalid, s_axil_rvalid} <= 0;
    end

    assign m_axis_tkeep = 8'hff;
    assign m_axis_tlast = 1'b1;

    simhash #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED), .ID(ID),
        .QUEUE(QUEUE), .RESULTS(RESULTS)
    ) core (
        .clk(aclk), .rst(rst), .write(write), .write_address(s_axil_awaddr[5:2]),
        .write_data(s_axil_wdata), .write_strobe(s_axil_wstrb), .refused(refused),
        .read_address(s_axil_araddr[5:2]), .read_data(read_data),
        .s_tvalid(s_axis_tvalid), .s_tready(s_axis_tready), .s_tdata(s_axis_tdata),
        .s_tkeep(s_axis_tkeep), .s_tlast(s_axis_tlast), .s_tid(s_axis_tid),
        .m_tvalid(m_axis_tvalid), .m_tready(m_axis_tready), .m_tdata(m_axis_tdata),
        .m_tid(m_axis_tid), .m_tuser(m_axis_tuser)
    );
endmodule

`default_nettype wire
