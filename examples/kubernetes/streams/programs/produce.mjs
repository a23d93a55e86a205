/** Pushes an utterance of two seconds every few seconds: a tone, with a mouth that opens as it gets louder. */
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { data, header, push, status } from './animation-data.mjs'

const { BROKER_URL, STREAM_ID, TOKEN } = process.env
const framesPerSecond = 30
const samplesPerSecond = 16_000
const frames = 2 * framesPerSecond
const pauseMs = 3_000

async function speak(requestId) {
  const request = push(BROKER_URL, TOKEN)
  const answered = request.answer.then(() => true)
  answered.catch(() => {})
  const startMs = Date.now()
  request.write(header({ requestId, streamId: STREAM_ID, blendShapes: ['JawOpen'], samplesPerSecond }))
  for (let frame = 0; frame < frames; frame++) {
    const timeCode = frame / framesPerSecond
    // The broker may end the request before its last frame.
    if (await Promise.race([answered, untilTime(startMs + timeCode * 1000)])) break
    request.write(data({ timeCode, weights: [loudnessAt(timeCode)], samples: samplesOf(frame) }))
  }
  request.write(status('SUCCESS', 'all is said'))
  request.end()
  const { code, message } = await request.answer
  console.log(`pushed ${requestId}: ${code} ${JSON.stringify(message)}`)
}

const untilTime = timeMs => setTimeout(Math.max(0, timeMs - Date.now()), false)
const loudnessAt = seconds => Math.sin(Math.PI * ((3 * seconds) % 1))

/** The sound of one frame, in PCM with 16 bits. */
function samplesOf(frame) {
  const [begin, end] = [frame, frame + 1].map(each => Math.round((each * samplesPerSecond) / framesPerSecond))
  const bytes = Buffer.alloc(2 * (end - begin))
  for (let index = begin; index < end; index++) {
    const seconds = index / samplesPerSecond
    const value = 8_000 * loudnessAt(seconds) * Math.sin(2 * Math.PI * 220 * seconds)
    bytes.writeInt16LE(Math.round(value), 2 * (index - begin))
  }
  return bytes
}

process.once('SIGTERM', () => process.exit(0))
for (;;) {
  await speak(`utterance-${randomUUID().slice(0, 8)}`).catch(error => console.error(error.message))
  await setTimeout(pauseMs)
}
