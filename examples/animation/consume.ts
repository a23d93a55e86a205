import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  type AnimationDataStream,
  Status_Code,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { createAnimationClient } from './animation-client.ts'
import { encodeFiles, Recording } from './recording.ts'

/** Writes received requests as WAV, CSV and SVG files. README.md has the options. */

const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: '127.0.0.1:8082' },
    token: { type: 'string' },
    stream: { type: 'string', default: 'demo' },
    // By default, the next request of the stream is consumed. With an empty value, all requests are consumed
    // until Ctrl-C.
    request: { type: 'string' },
    object: { type: 'string', default: '' },
    out: { type: 'string', default: 'out/animation' },
  },
})

const stop = new AbortController()
process.once('SIGINT', () => stop.abort())

let recording: Recording | undefined
let written = 0

function take({ streamPart: { case: part, value } }: AnimationDataStream): void {
  if (part === 'animationDataStreamHeader') {
    write()
    recording = new Recording(value)
    console.log(`${recording.title}: ${recording.names.length} blend shapes, from ${value.sourceServiceId}`)
  } else if (part === 'animationData') recording?.add(value)
  else if (part === 'status') console.log(`${Status_Code[value.code] ?? value.code} "${value.message}"`)
}

/** Returns whether a message is the last one of its request. Statuses of other kinds do not end a request. */
function isLast({ streamPart: { case: part, value } }: AnimationDataStream): boolean {
  if (part !== 'status') return false
  const { code, message } = value
  const isInterrupted = code === Status_Code.INFO && message === 'interrupted'
  return code === Status_Code.SUCCESS || code === Status_Code.ERROR || isInterrupted
}

/** Writes the files `received.*` of the first request, and `received-2.*` of the second one. */
function write(): void {
  if (recording === undefined) return
  written += 1
  const name = written === 1 ? 'received' : `received-${written}`
  mkdirSync(options.out, { recursive: true })
  for (const [ending, content] of Object.entries(encodeFiles(recording))) {
    const path = join(options.out, `${name}.${ending}`)
    writeFileSync(path, content)
    console.log(`wrote ${path}`)
  }
  recording = undefined
}

const client = createAnimationClient(options.target, options.token)
try {
  const { stream: streamId, request: requestId = '', object: targetObjectId } = options
  for await (const message of client.pull({ streamId, requestId, targetObjectId }, stop.signal)) {
    take(message)
    if (options.request === undefined && isLast(message)) stop.abort()
  }
} catch (error) {
  if (!stop.signal.aborted) {
    console.error(`${error}`)
    process.exitCode = 1
  }
} finally {
  write()
  client.close()
}
