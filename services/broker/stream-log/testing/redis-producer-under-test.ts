import { systemClock } from '@tollway/chassis/clock.ts'
import { createRedisLog } from '../redis/redis-log.ts'
import { systemRepeat } from '../repeat.ts'
import { createOpening, toBytes } from './log-under-test.ts'
import { quickTimings } from './redis-log-under-test.ts'

/**
 * A program with a producer that the test kills: `node redis-producer-under-test.ts URL REQUEST_ID TEXT…`. It
 * appends the texts and does not end the request.
 */
const [url = '', requestId = '', ...texts] = process.argv.slice(2)

const log = createRedisLog({
  url,
  podId: `killed-${process.pid}`,
  clock: systemClock,
  repeat: systemRepeat,
  random: Math.random,
  timings: quickTimings,
})
const writer = await log.open(createOpening(requestId))
for (const text of texts) writer.append(toBytes(text))
