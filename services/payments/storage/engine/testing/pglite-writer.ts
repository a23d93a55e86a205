import { systemClock } from '@tollway/chassis/clock.ts'
import { openPglite } from '../pglite.ts'

/** Commits rows until the process is killed, and prints the number of each committed row. */
const [folder = ''] = process.argv.slice(2)
const storage = await openPglite({ folder, clock: systemClock, random: Math.random })
await storage.transaction(tx => tx.script('CREATE TABLE IF NOT EXISTS written (n int PRIMARY KEY)'))
for (let n = 1; ; n += 1) {
  await storage.transaction(tx => tx.query('INSERT INTO written VALUES ($1)', [n]))
  process.stdout.write(`${n}\n`)
}
