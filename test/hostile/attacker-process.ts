import { attack } from './attacker.ts'
import { floods } from './floods.ts'

/** `attacker-process.ts FLOOD PORT`: floods the port until it is told to end, and says what it did. */
const [, , name = '', port = ''] = process.argv
const flood = Object.entries(floods).find(([known]) => known === name)?.[1]
if (flood === undefined) throw new Error(`there is no flood of ${name}`)
const over = new Promise(resolve => process.once('SIGTERM', resolve))
const { frames, goAways } = attack(flood, Number(port), over)
await over
process.stdout.write(`attack ${JSON.stringify({ frames: frames(), goAways })}\n`)
process.exit()
