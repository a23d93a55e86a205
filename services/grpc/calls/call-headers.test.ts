import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Metadata } from '../server.ts'
import { fromMetadata } from './call-headers.ts'

test('metadata is read as text, with the values of a name joined', () => {
  const metadata: Metadata = new Map([
    ['traceparent', ['00-a-b-01']],
    ['tracestate', ['a=1', 'b=2']],
    ['b3', [new Uint8Array(3)]],
    ['empty', []],
  ])
  const read = fromMetadata(metadata)
  assert.equal(read('traceparent'), '00-a-b-01')
  assert.equal(read('tracestate'), 'a=1,b=2')
  assert.equal(read('b3'), undefined)
  assert.equal(read('not-sent'), undefined)
})
