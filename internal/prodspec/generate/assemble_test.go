package generate_test

import (
	"bytes"
	"encoding/binary"
)

// module is a small WebAssembly module: what _start does, and what it needs.
type module struct {
	imports []function
	// pages of memory, and tables by what they begin with.
	pages  uint64
	tables []uint64
	// start is the code of _start, after the imports' functions; locals is how
	// many of type i32 it has.
	start  []byte
	locals uint64
	// more functions that do nothing.
	more int
	// data from address 0 on.
	data []byte
	// noStart leaves the export out.
	noStart bool
	// padding is in a section that says nothing.
	padding int
}

// function of the host, of one of the types.
type function struct {
	from, name string
	of         byte
}

// Types of functions.
const (
	typeStart = iota // () → ()
	typeExit         // (i32) → ()
	typeWrite        // (i32, i32, i32, i32) → i32
	typeFill         // (i32, i32) → i32
)

const wasi = "wasi_snapshot_preview1"

var (
	fdWrite  = function{wasi, "fd_write", typeWrite}
	procExit = function{wasi, "proc_exit", typeExit}
	pollOff  = function{wasi, "poll_oneoff", typeWrite}
)

func number(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// signed is a constant in code.
func signed(n int64) (b []byte) {
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if n == 0 && low&0x40 == 0 || n == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func i32(n int64) []byte { return append([]byte{0x41}, signed(n)...) }

func call(index uint64) []byte { return append([]byte{0x10}, number(index)...) }

func code(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

var (
	drop        = []byte{0x1a}
	unreachable = []byte{0x00}
	growMemory  = []byte{0x40, 0x00}
	// growTable of the first table by what is on the stack, with nothing.
	growTable = func(by int64) []byte { return code([]byte{0xd0, 0x70}, i32(by), []byte{0xfc, 0x0f, 0x00}) }
	// forever is loop … br 0 end around code.
	forever = func(inside []byte) []byte { return code([]byte{0x03, 0x40}, inside, []byte{0x0c, 0x00, 0x0b}) }
)

func text(s string) []byte { return append(number(uint64(len(s))), s...) }

func section(id byte, content []byte) []byte {
	return code([]byte{id}, number(uint64(len(content))), content)
}

func (m module) bytes() []byte {
	types := code(number(4),
		[]byte{0x60, 0, 0}, []byte{0x60, 1, 0x7f, 0}, []byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f}, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f})
	imports := number(uint64(len(m.imports)))
	for _, f := range m.imports {
		imports = code(imports, text(f.from), text(f.name), []byte{0, f.of})
	}
	functions := code(number(uint64(1+m.more)), bytes.Repeat([]byte{typeStart}, 1+m.more))
	body := []byte{0}
	if m.locals > 0 {
		body = code(number(1), number(m.locals), []byte{0x7f})
	}
	body = code(body, m.start, []byte{0x0b})
	bodies := code(number(uint64(1+m.more)), number(uint64(len(body))), body, bytes.Repeat([]byte{2, 0, 0x0b}, m.more))
	exports := code(number(1), text("memory"), []byte{2, 0})
	if !m.noStart {
		exports = code(number(2), text("memory"), []byte{2, 0}, text("_start"), []byte{0}, number(uint64(len(m.imports))))
	}
	tables := number(uint64(len(m.tables)))
	for _, elements := range m.tables {
		tables = code(tables, []byte{0x70, 0}, number(elements))
	}
	made := code([]byte("\x00asm\x01\x00\x00\x00"), section(1, types), section(2, imports), section(3, functions), section(4, tables),
		section(5, code([]byte{1, 0}, number(max(m.pages, 1)))), section(7, exports), section(10, bodies))
	if len(m.data) > 0 {
		made = append(made, section(11, code(number(1), []byte{0}, i32(0), []byte{0x0b}, text(string(m.data))))...)
	}
	if m.padding > 0 {
		made = append(made, section(0, code(text("padding"), make([]byte, m.padding)))...)
	}
	return made
}

// says is a module that writes a text, and ends with an exit code.
func says(said string, exit int64) module {
	const at = 64
	data := make([]byte, at, at+len(said))
	binary.LittleEndian.PutUint32(data[0:], at)
	binary.LittleEndian.PutUint32(data[4:], uint32(len(said)))
	return module{
		imports: []function{fdWrite, procExit}, pages: uint64(len(said)/65536 + 2), data: append(data, said...),
		start: code(i32(1), i32(0), i32(1), i32(8), call(0), drop, i32(exit), call(1)),
	}
}
