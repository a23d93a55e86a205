import { fromBinary } from '@bufbuild/protobuf'
import { checkType } from '@tollway/discovery/check-type.ts'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { DomainConfig, Problem } from '../rules/config.ts'
import { maxFindings } from '../rules/findings.ts'
import { decodeResource } from './decode-resource.ts'
import { rateLimitTypeUrl } from './resource-type.ts'

/** Resources of one response, as it holds them. */
export interface Resources {
  readonly typeUrl: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
}

/** Judges nothing but the form; every resource that has the wrong one is told. */
export function readResources({ typeUrl: type, resources }: Resources): {
  readonly configs: readonly DomainConfig[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
} {
  const configs: DomainConfig[] = []
  const problems: Problem[] = []
  const read = (source: string, look: () => void) => {
    try {
      look()
    } catch (error) {
      problems.push({ source, path: '', message: (error as Error).message })
    }
  }
  read('response', () => checkType(type, rateLimitTypeUrl))
  for (const [index, { typeUrl, value }] of resources.entries()) {
    read(`resources[${index}]`, () => {
      checkType(typeUrl, rateLimitTypeUrl)
      configs.push(decodeResource(fromBinary(RateLimitConfigSchema, value)))
    })
  }
  return { configs, problems: problems.slice(0, maxFindings), warnings: [] }
}
