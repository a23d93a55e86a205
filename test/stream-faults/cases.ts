import { brokerFaults } from './broker-faults.ts'
import { callerFaults } from './caller-faults.ts'
import { consumerFaults } from './consumer-faults.ts'
import type { StreamFault } from './stream-fault.ts'

export const cases: readonly StreamFault[] = [...consumerFaults, ...brokerFaults, ...callerFaults]
