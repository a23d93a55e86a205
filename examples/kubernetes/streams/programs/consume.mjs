/** Pulls all requests of a stream, and writes a line for each that ends. */
import { setTimeout } from 'node:timers/promises'
import { pull } from './animation-data.mjs'

const { BROKER_URL, STREAM_ID, TOKEN } = process.env
const retryMs = 500

async function consume() {
  let request = { id: '', frames: 0, samples: 0, samplesPerSecond: 1 }
  for await (const { header, data, status } of pull(BROKER_URL, TOKEN, STREAM_ID)) {
    if (header !== undefined) {
      const { requestId: id, samplesPerSecond } = header
      request = { id, frames: 0, samples: 0, samplesPerSecond }
    } else if (data !== undefined) {
      request.frames += 1
      request.samples += data.sampleCount
    } else {
      const { id, frames, samples, samplesPerSecond } = request
      const seconds = (samples / samplesPerSecond).toFixed(1)
      console.log(`received ${id}: ${frames} frames, ${seconds} s of sound, ${status.code} ${JSON.stringify(status.message)}`)
    }
  }
}

process.once('SIGTERM', () => process.exit(0))
for (;;) {
  await consume().catch(error => console.error(error.message))
  // The broker was replaced, or does not run yet.
  await setTimeout(retryMs)
}
