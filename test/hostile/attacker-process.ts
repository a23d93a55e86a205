import { attack } from './attacker.ts'
import { attackerQuietMs, floods } from './floods.ts'

/**
 * `attacker-process.ts FLOOD PORT [RECONNECT_MS]`: floods the port until SIGTERM, and prints the number of
 * sent frames.
 */
const [, , name = '', port = '', reconnectMs] = process.argv
const flood = Object.entries(floods).find(([known]) => known === name)?.[1]
if (flood === undefined) throw new Error(`unknown flood: ${name}`)
const over = new Promise(resolve => process.once('SIGTERM', resolve))
const { frames, goAways } = attack(flood, Number(port), over, {
  reconnectMs: reconnectMs === undefined ? undefined : Number(reconnectMs),
  quietMs: attackerQuietMs,
})
const alive = setInterval(() => {}, 1000)
await over
clearInterval(alive)
process.stdout.write(`attack ${JSON.stringify({ frames: frames(), goAways })}\n`)
process.exit()
