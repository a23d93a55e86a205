import { setImmediate } from 'node:timers/promises'
import { stepMs } from './standstill.ts'

/** The process of standstill.ts: sleeps until the end message, then writes how late each sleep ended. */
const nobody = new Int32Array(new SharedArrayBuffer(4))
const latenesses: number[] = []
const parent = process.ppid
let isEnded = false
process.once('SIGTERM', () => {
  isEnded = true
})
// A killed parent sends no message.
while (!isEnded && process.ppid === parent) {
  const startMs = performance.now()
  Atomics.wait(nobody, 0, 0, stepMs)
  latenesses.push(Math.max(0, performance.now() - startMs - stepMs))
  await setImmediate()
}
process.stdout.write(JSON.stringify(latenesses))
