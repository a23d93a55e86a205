import { after } from 'node:test'
import { closeSharedApi } from './api-under-test.ts'
import './access-contract.ts'
import './answers-contract.ts'
import './call-limits-contract.ts'
import './fuzz-contract.ts'
import './idempotency-contract.ts'
import './invitations-contract.ts'
import './promises-contract.ts'
import './provision-contract.ts'
import './public-client-contract.ts'
import './search-contract.ts'
import './trail-contract.ts'
import './webhooks-contract.ts'
import '../operations/events-contract.ts'
import '../operations/pay-contract.ts'

/** Suites that need a database share one, and the API in front of it. */
after(closeSharedApi)
