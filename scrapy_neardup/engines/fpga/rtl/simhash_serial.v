// The core for a serial line: documents and commands in, frames out.
//
// In, byte by byte:
//
//   a byte of text            0x02 to 0xff as they are
//   0x00                      the document ends; it has the next id, counted from 0 in eight bits
//   0x01 'L', 0x01 'Z'        the bytes 0x01 and 0x00 in a text
//   0x01 'W' a d0 d1 d2 d3    write d3..d0 into register a of registers.v
//   0x01 'R' a                read register a
//
// Out, frames of 19 bytes, numbers with their lowest byte first:
//
//   'D' id flags fingerprint:8 crc:4 check:4    a document; crc is the CRC-32 of its text as received
//   'W' a refused 0:8 0:4 check:4               a write was carried out, or refused
//   'R' a 0 value:4 0:4 0:4 check:4             a register's value
//
// flags are those of simhash_stream.v; bit 3: a byte came faster than it could be taken, and is
// lost. check is the CRC-32 of the 15 bytes before it. A write of 1 to CONTROL also restarts ids and
// what is kept here. A host leaves at most 32 documents unanswered, since the line cannot wait, and
// one command.

`default_nettype none

module simhash_serial #(
    parameter N = 8,        // as in simhash_stream.v
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter DIVISOR = 25  // clock cycles a bit of the line
) (
    input  wire       clk,
    input  wire       rst_in,
    input  wire       rx,
    output wire       tx,
    output reg  [7:0] answered      // documents, modulo 256
);
    localparam [7:0] END = 8'h00, ESCAPE = 8'h01;
    localparam [2:0] TEXT = 0, COMMAND = 1, ADDRESS = 2, DATA = 3, EXECUTE = 4;

    // ---- Bytes off the line: text, its end, or a command.
    wire       came;
    wire [7:0] char;
    reg  [2:0] state;
    reg        is_write;
    reg  [1:0] n_data;
    reg  [7:0] address;
    reg [31:0] value;
    wire       in_text = came & state == TEXT;
    wire       escaped = came & state == COMMAND & (char == "L" | char == "Z");
    wire       letter = (in_text & char != END & char != ESCAPE) | escaped;
    wire       ends = in_text & char == END;
    wire [7:0] text = escaped ? (char == "L" ? ESCAPE : 8'h00) : char;
    wire       execute = state == EXECUTE;
    wire       restart = execute & is_write & address == 8'h08 & value[0];
    wire       rst = rst_in | restart;

    uart_rx #(DIVISOR) receiver (.clk(clk), .rst(rst_in), .rx(rx), .valid(came), .data(char));

    always @(posedge clk) begin
        if (execute) state <= TEXT;
        else if (came)
            case (state)
                TEXT: if (char == ESCAPE) state <= COMMAND;
                COMMAND: state <= char == "W" | char == "R" ? ADDRESS : TEXT;
                ADDRESS: state <= is_write ? DATA : EXECUTE;
                default: if (n_data == 2'd3) state <= EXECUTE;
            endcase
        if (came) begin
            if (state == COMMAND) is_write <= char == "W";
            if (state == ADDRESS) address <= char;
            n_data <= state == DATA ? n_data + 2'd1 : 2'd0;
            if (state == DATA) value <= {char, value[31:8]};
        end
        if (rst_in) state <= TEXT;
    end

    // ---- Text: eight bytes a beat. A whole beat waits for the byte that says whether it is the last.
    reg  [63:0] data;
    reg  [3:0]  n_bytes;
    reg  [7:0]  id;
    reg         s_tvalid, s_tlast, overrun;
    reg  [63:0] s_tdata;
    reg  [7:0]  s_tkeep, s_tid;
    wire        s_tready;
    wire        goes = ends | (letter & n_bytes[3]);
    wire [8:0]  ones = (9'd1 << n_bytes) - 9'd1;
    wire        unused = ones[8];

    always @(posedge clk) begin
        if (letter) begin
            data[8*n_bytes[2:0]+:8] <= text;
            n_bytes <= n_bytes[3] ? 4'd1 : n_bytes + 4'd1;
        end
        if (goes & (~s_tvalid | s_tready)) begin
            s_tdata <= data;
            s_tkeep <= ones[7:0];
            s_tlast <= ends;
            s_tid   <= id;
        end
        s_tvalid <= goes | (s_tvalid & ~s_tready);
        overrun  <= overrun | (goes & s_tvalid & ~s_tready);
        if (ends) begin
            n_bytes <= 4'd0;
            id      <= id + 8'd1;
        end
        if (rst) {n_bytes, id, s_tvalid, overrun} <= 0;
    end

    // ---- What was received of each document, for the host to compare with what it sent.
    reg  [31:0] text_crc, received[0:255], crc_of_result;
    wire [31:0] more_crc;
    wire [7:0]  m_tid;

    crc32 of_text (.crc(text_crc), .data(text), .longer(more_crc));

    always @(posedge clk) begin
        if (letter) text_crc <= more_crc;
        if (ends) received[id] <= ~text_crc;
        crc_of_result <= received[m_tid];
        if (rst | ends) text_crc <= 32'hffffffff;
    end

    // ---- The core.
    wire        refused, m_tvalid;
    reg         m_tready;
    wire [31:0] read_data;
    wire [63:0] m_tdata;
    wire [2:0]  m_tuser;

    simhash #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED), .ID(8)
    ) core (
        .clk(clk), .rst(rst_in), .write(execute & is_write & address[7:6] == 2'd0),
        .write_address(address[5:2]), .write_data(value), .write_strobe(4'hf), .refused(refused),
        .read_address(address[5:2]), .read_data(read_data),
        .s_tvalid(s_tvalid), .s_tready(s_tready), .s_tdata(s_tdata), .s_tkeep(s_tkeep),
        .s_tlast(s_tlast), .s_tid(s_tid),
        .m_tvalid(m_tvalid), .m_tready(m_tready), .m_tdata(m_tdata), .m_tid(m_tid),
        .m_tuser(m_tuser)
    );

    // ---- Frames: an answer to a command goes before results.
    localparam [4:0] BODY = 15, FRAME = 19;
    reg  [8*BODY-1:0] frame;
    reg  [4:0]   left;              // bytes of the frame that are still to go
    reg          reply_waits, looked_up;
    reg  [55:0]  reply;             // value, refused, address, 'W' or 'R'
    reg  [31:0]  check;
    wire [31:0]  more_check;
    wire         tx_ready;
    wire         sends = left != 0 & tx_ready;
    wire         in_body = left > FRAME - BODY;
    wire [7:0]   sent = in_body ? frame[7:0] : ~check[7:0];

    crc32 of_frame (.crc(check), .data(sent), .longer(more_check));
    uart_tx #(DIVISOR) sender (
        .clk(clk), .rst(rst_in), .valid(sends), .ready(tx_ready), .data(sent), .tx(tx)
    );

    always @(posedge clk) begin
        m_tready  <= 1'b0;
        looked_up <= m_tvalid & ~m_tready;      // its CRC has been read from memory
        if (execute) begin
            reply_waits <= 1'b1;
            reply <= {is_write ? 32'd0 : read_data, 7'd0, (is_write & refused) | (|address[7:6]),
                      address, is_write ? 8'h57 : 8'h52};
        end
        if (left != 0) begin
            if (sends) begin
                left  <= left - 5'd1;
                frame <= frame >> 8;
                check <= in_body ? more_check : check >> 8;
            end
        end else begin
            check <= 32'hffffffff;
            if (reply_waits) begin
                frame <= {64'd0, reply};
                left  <= FRAME;
                reply_waits <= execute;
            end else if (m_tvalid & looked_up & ~m_tready) begin
                frame <= {crc_of_result, m_tdata, 4'd0, overrun, m_tuser, m_tid, 8'h44};
                left  <= FRAME;
                m_tready <= 1'b1;
                answered <= answered + 8'd1;
            end
        end
        if (rst) begin
            {m_tready, looked_up} <= 0;
            answered <= 8'd0;
        end
        if (rst_in) {left, reply_waits} <= 0;
    end
endmodule

`default_nettype wire
