/** The resource type that the service requests from a management server. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'
