import { type BrokerAddress, readPreview, readStreams } from './broker-pages.ts'
import type { BrokerLook } from './stream-rows.ts'

/** Reads the requests of all brokers. A broker that does not answer has an entry with its problem. */
export function askBrokers(brokers: readonly BrokerAddress[]): Promise<readonly BrokerLook[]> {
  return Promise.all(
    brokers.map(async (broker): Promise<BrokerLook> => {
      try {
        return { address: broker.url.origin, page: await readStreams(broker) }
      } catch (error) {
        return { address: broker.url.origin, problem: (error as Error).message }
      }
    }),
  )
}

/**
 * Resolves with the preview of the first broker that knows the request; undefined if none does. Rejects if no
 * broker knows it, and one did not answer.
 */
export async function askPreview(
  brokers: readonly BrokerAddress[],
  key: string,
): Promise<object | undefined> {
  const answers = await Promise.allSettled(brokers.map(broker => readPreview(broker, key)))
  const found = answers.find(answer => answer.status === 'fulfilled' && answer.value !== undefined)
  if (found?.status === 'fulfilled') return found.value
  const failed = answers.find(answer => answer.status === 'rejected')
  if (failed) throw failed.reason
  return undefined
}
