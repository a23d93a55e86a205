import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { frame } from '../server/testing/contract/support.ts'
import { GrpcError } from '../status.ts'
import { MessageReader, onlyMessage } from './message-reader.ts'

describe('messages', () => {
  test('every split of the bytes, read at any time, yields the same messages', () => {
    const bodies = fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 6 })
    const cuts = fc.array(fc.record({ length: fc.nat(2500), takes: fc.boolean(), keeps: fc.boolean() }))
    fc.assert(
      fc.property(bodies, cuts, (sent, where) => {
        const reader = new MessageReader(3000, 'identity')
        const received: string[] = []
        const takeAll = () => {
          for (let next = reader.take(); next; next = reader.take())
            received.push(Buffer.from(next).toString('hex'))
        }
        let rest = Buffer.concat(sent.map(body => frame(body)))
        for (const { length, takes, keeps } of where) {
          reader.push(rest.subarray(0, length))
          rest = rest.subarray(length)
          if (takes) takeAll()
          if (keeps) reader.keep()
        }
        reader.push(rest)
        takeAll()
        assert.equal(reader.heldBytes, 0)
        assert.deepEqual(
          received,
          sent.map(body => Buffer.from(body).toString('hex')),
        )
      }),
    )
  })

  test('a taken message is not changed by later ones', () => {
    const reader = new MessageReader(100, 'identity')
    reader.push(Buffer.concat([frame('one'), frame('two').subarray(0, 6)]))
    const one = reader.take()
    reader.keep()
    reader.push(frame('two').subarray(6))
    for (let more = 0; more < 500; more += 1) reader.push(frame('more'))
    assert.equal(Buffer.from(one ?? []).toString(), 'one')
    assert.equal(Buffer.from(reader.take() ?? []).toString(), 'two')
  })

  test('a message that is taken at once is not copied, and the rest is', () => {
    const reader = new MessageReader(100, 'identity')
    const memory = Buffer.concat([frame('one'), frame('two'), frame('three').subarray(0, 7)])
    reader.push(memory)
    assert.equal(reader.take()?.buffer, memory.buffer)
    reader.keep()
    memory.fill(0)
    reader.push(frame('three').subarray(7))
    reader.keep()
    assert.equal(Buffer.from(reader.take() ?? []).toString(), 'two')
    assert.equal(Buffer.from(reader.take() ?? []).toString(), 'three')
  })

  test('an invalid message is rejected by its prefix', () => {
    for (const [prefix, compression] of [
      ['0000000065', 'identity'],
      ['00ffffffff', 'identity'],
      ['0100000000', 'identity'],
      ['0100000000', 'gzip'],
      ['0200000000', 'gzip'],
    ] as const) {
      const reader = new MessageReader(100, compression)
      reader.push(Buffer.from(prefix, 'hex'))
      assert.throws(() => reader.take(), GrpcError, prefix)
      assert.equal(onlyMessage(Buffer.from(prefix, 'hex'), 0, 5, 100), undefined)
    }
  })

  test('one complete message is recognised without a copy', () => {
    const bytes = frame('text')
    const twice = Buffer.concat([bytes, bytes])
    for (const start of [0, 9]) {
      const message = onlyMessage(twice, start, start + 9, 4)
      assert.equal(message?.buffer, twice.buffer)
      assert.deepEqual(message, Buffer.from('text'))
      assert.equal(onlyMessage(twice, start, start + 9, 3), undefined)
    }
    for (const end of [0, 4, 5, 8, 10, 18]) assert.equal(onlyMessage(twice, 0, end, 4), undefined)
  })
})
