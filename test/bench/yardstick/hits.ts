import { Redis } from 'ioredis'

const windowSeconds = 86_400

/**
 * Counts in Redis with the stock client: a command object for each INCRBY and EXPIRE, which auto-pipelining
 * sends together. Its keys differ from those of the service, which counts in the same Redis.
 */
export function createHits(redisPort: number): (stem: string) => Promise<number> {
  const redis = new Redis({ port: redisPort, enableAutoPipelining: true })
  return stem => {
    const start = Math.floor(Date.now() / 1000 / windowSeconds) * windowSeconds
    const key = `y_${stem}${start}`
    const value = redis.incrby(key, 1)
    redis.expire(key, windowSeconds)
    return value
  }
}
