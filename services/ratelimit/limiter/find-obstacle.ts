import type { Counters } from '../counters/counters.ts'
import type { Feature } from '../rules/fields.ts'
import { countsInOneStep } from '../rules/model.ts'

interface ObstacleSettings {
  readonly backendType: 'redis' | 'memory' | 'memcache'
  readonly redisType: string
  readonly cacheKeyPrefix: string
}

/** How long to wait for a backend that has not answered yet before asking it. */
const backendTimeoutMs = 3_000

/**
 * Returns the reason why these settings and counters cannot enforce the features, or the empty string. The
 * backend is asked only if a feature needs it to count in one step (see `countsInOneStep`), or to divide a limit.
 */
export async function findObstacle(
  { backendType, redisType, cacheKeyPrefix }: ObstacleSettings,
  counters: Pick<Counters, 'findObstacle' | 'healthy' | 'onHealth'>,
  features: readonly Feature[],
): Promise<string> {
  const needed = features.filter(each => countsInOneStep(each) || each === 'quota')
  if (needed.length === 0) return ''
  const needs = `it needs ${needed.join(', ')}, which`
  if (backendType === 'memcache') return `${needs} memcached cannot count; use BACKEND_TYPE redis or memory`
  if (features.includes('limits') && /[{}]/.test(cacheKeyPrefix)) {
    return `${needs} CACHE_KEY_PREFIX with braces does not allow; remove the braces`
  }
  if (backendType !== 'redis') return ''
  if (features.includes('allOrNothing') && redisType.toLowerCase() === 'cluster') {
    return 'it needs allOrNothing, which a Redis Cluster cannot count, since its keys are on several masters'
  }
  await waitForBackend(counters)
  const obstacle = (await counters.findObstacle?.(cacheKeyPrefix, features)) ?? ''
  return obstacle === '' ? '' : `${needs} Redis rejects: ${obstacle}`
}

/** Resolves when the backend has answered, or after `backendTimeoutMs`. */
async function waitForBackend(counters: Pick<Counters, 'healthy' | 'onHealth'>): Promise<void> {
  if (counters.healthy) return
  await new Promise<void>(resolve => {
    counters.onHealth(() => resolve())
    setTimeout(resolve, backendTimeoutMs).unref()
  })
}
