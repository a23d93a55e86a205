import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import {
  AnimationDataStreamSchema,
  Status_Code,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import type { StreamPart } from './animation-client.ts'
import { ReceivedRun } from './received-run.ts'

/** @param text `header`, `data`, or the text of a status */
function message(text: string) {
  const parts: Record<string, StreamPart> = {
    header: { case: 'animationDataStreamHeader', value: {} },
    data: { case: 'animationData', value: {} },
  }
  const status: StreamPart = { case: 'status', value: { code: Status_Code.INFO, message: text } }
  return create(AnimationDataStreamSchema, { streamPart: parts[text] ?? status })
}

/** Receives the messages, and returns those that are shown. */
function receive(received: ReceivedRun, ...texts: string[]): readonly string[] {
  received.begin()
  return texts
    .flatMap(text => received.take(message(text)))
    .map(({ streamPart: { case: part, value } }) => {
      if (part === 'status') return value.message
      return part === 'animationData' ? 'data' : 'header'
    })
}

test('a resumed run is counted, and its header and name are not shown again', () => {
  const received = new ReceivedRun()
  assert.equal(received.metadata(), 'none')
  const first = receive(received, 'header', 'run a, the next is message 1', 'data', 'data')
  assert.deepEqual(first, ['header', 'data', 'data'])
  assert.equal(received.metadata(), 'a=3')
  const rest = receive(received, 'header', 'run a, the next is message 3', 'data', 'all is said')
  assert.deepEqual(rest, ['data', 'all is said'])
  assert.equal(received.metadata(), 'a=4')
})

test('the header of another run is shown', () => {
  const received = new ReceivedRun()
  receive(received, 'header', 'run a, the next is message 1', 'data')
  const shown = receive(received, 'header', 'run b, the next is message 1', 'data')
  assert.deepEqual(shown, ['header', 'data'])
  assert.equal(received.metadata(), 'b=2')
})

test('no message is lost if the broker does not name the run', () => {
  const received = new ReceivedRun()
  receive(received, 'header', 'run a, the next is message 1', 'data')
  assert.deepEqual(receive(received, 'header', 'data', 'data', 'all is said'), [
    'header',
    'data',
    'data',
    'all is said',
  ])
  assert.equal(received.metadata(), 'none')
  assert.deepEqual(receive(received, 'header', 'all is said'), ['header', 'all is said'])
})
