import { version } from '@tollway/chassis/version.ts'
import type { EndpointId } from '../endpoints.ts'
import { openApiDocument } from '../openapi-document.ts'
import { apply } from './apply.ts'
import { counter, raise, reset, top } from './counters.ts'
import { domains, history, rules } from './domains.ts'
import type { Handler, StreamHandler } from './handler.ts'
import { manifest } from './manifest.ts'
import { merchants } from './merchants.ts'
import { resources } from './resources.ts'
import { rights } from './rights.ts'
import { preview, streams } from './streams.ts'
import { series, tap } from './streams-of-decisions.ts'
import { tryRequest } from './try.ts'
import { whatIf } from './what-if.ts'

const openapi: Handler = { placeOf: () => ({}), answer: async () => openApiDocument() }
const versionOf: Handler = { placeOf: () => ({}), answer: async () => ({ version }) }

/** The handler of each endpoint. */
export const handlers: Readonly<Record<EndpointId, Handler | StreamHandler>> = {
  ...{ openapi, domains, rules, counter, reset, raise, top, history, series, tap, whatIf },
  ...{ try: tryRequest, apply, manifest, rights, version: versionOf, resources, streams, preview, merchants },
}
