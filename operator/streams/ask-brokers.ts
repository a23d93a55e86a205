import { type BrokerAddress, readStreams } from './broker-pages.ts'
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
