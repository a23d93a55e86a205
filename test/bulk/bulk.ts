import { parseArgs } from 'node:util'
import { playBulkChanges } from './bulk-change.ts'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '5000' },
    operators: { type: 'string', default: '2' },
    services: { type: 'string', default: '3' },
    idle: { type: 'string', default: '90' },
  },
})

const cleanups: (() => Promise<unknown> | unknown)[] = []
try {
  const run = await playBulkChanges(
    { after: cleanup => cleanups.push(cleanup) },
    {
      count: Number(values.count),
      operators: Number(values.operators),
      services: Number(values.services),
      idleSeconds: Number(values.idle),
      say: text => console.log(text),
    },
  )
  console.log('bytes a minute while nothing happens:', run.idleBytesPerMinute)
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
}
