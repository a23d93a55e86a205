import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { RespWriter, requestHead } from './request-writer.ts'

type Argument = string | number

function write(writer: RespWriter, name: string, args: readonly Argument[]): void {
  writer.begin(requestHead(name, args.length))
  for (const argument of args) {
    if (typeof argument === 'number') writer.integer(argument)
    else writer.text(argument)
  }
}

/** Encodes a request as the protocol defines it. */
function expected(name: string, args: readonly Argument[]): Buffer {
  const parts = [name, ...args.map(String)].map(part => Buffer.from(part))
  const bulks = parts.flatMap(part => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from('\r\n')])
  return Buffer.concat([Buffer.from(`*${parts.length}\r\n`), ...bulks])
}

test('a request is an array of bulk strings', () => {
  const writer = new RespWriter()
  write(writer, 'INCRBY', ['a_b_', 10])
  write(writer, 'PING', [])
  assert.equal(
    writer.bytes().toString(),
    '*3\r\n$6\r\nINCRBY\r\n$4\r\na_b_\r\n$2\r\n10\r\n*1\r\n$4\r\nPING\r\n',
  )
  assert.equal(writer.requests, 2)
})

test('texts and numbers are encoded exactly, independently of earlier requests', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 30 }),
    fc.constantFrom('', '\r\n', 'é'.repeat(9), 'é'.repeat(40_000), 'x'.repeat(99_999), '\ud800', '😀'),
  )
  const number = fc.oneof(
    fc.maxSafeNat(),
    fc.nat(200),
    fc.nat(15).map(digits => 10 ** digits - 1),
  )
  const request = fc.tuple(fc.constantFrom('GET', 'INCRBY'), fc.array(fc.oneof(text, number)))
  const writer = new RespWriter()
  fc.assert(
    fc.property(fc.array(request, { maxLength: 5 }), fc.boolean(), (requests, reusable) => {
      for (const [name, args] of requests) write(writer, name, args)
      const bytes = Buffer.concat(requests.map(([name, args]) => expected(name, args)))
      assert.ok(writer.bytes().equals(bytes), `${writer.bytes()} is not ${bytes}`)
      assert.equal(writer.requests, requests.length)
      writer.clear(reusable)
      assert.equal(writer.bytes().length, 0)
    }),
  )
})

test('memory that is still being read is not overwritten', () => {
  const writer = new RespWriter()
  write(writer, 'GET', ['a'])
  const taken = writer.bytes()
  const before = Buffer.from(taken)
  writer.clear(false)
  write(writer, 'GET', ['b'])
  assert.deepEqual(taken, before)
})

test('memory that a burst needed is released', () => {
  const writer = new RespWriter()
  write(writer, 'GET', ['x'.repeat(2_000_000)])
  const burst = writer.bytes().buffer
  writer.clear(true)
  write(writer, 'GET', ['a'])
  assert.notEqual(writer.bytes().buffer, burst)
  assert.ok(writer.bytes().buffer.byteLength < 100_000)
})
