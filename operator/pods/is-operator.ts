import { checkSubjectAltName } from '@tollway/chassis/net/tls.ts'
import type { Call } from '@tollway/grpc/server.ts'

/**
 * Returns whether the caller has a certificate of operators. Processes have certificates of the same
 * authority, without this name.
 *
 * @param operatorName undefined if no caller is an operator
 */
export function isOperator({ peerCertificate }: Call, operatorName: string | undefined): boolean {
  if (peerCertificate === undefined || operatorName === undefined) return false
  return checkSubjectAltName(peerCertificate, operatorName) === undefined
}
