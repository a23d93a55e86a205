# The images of Tollway, one target each: operator, ratelimit, broker, payments.
#
#   docker build --target operator -t tollway/operator:dev .
#
# They have the files that `make images` packs without Docker; images/dockerfile.test.ts compares both.

FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /src
COPY package.json package-lock.json ./
COPY proto/package.json proto/
COPY crds/package.json crds/
COPY operator/package.json operator/
COPY services/grpc/package.json services/grpc/
COPY services/chassis/package.json services/chassis/
COPY services/xds-client/package.json services/xds-client/
COPY services/ratelimit/package.json services/ratelimit/
COPY services/broker/package.json services/broker/
COPY services/payments/package.json services/payments/
RUN npm ci --ignore-scripts --no-audit --no-fund

# A folder for each layer: Node with its shared libraries, and each program as plain JavaScript.
FROM dependencies AS build
COPY . .
RUN node images/main.ts operator ratelimit broker payments

FROM scratch AS base
COPY --from=build /src/out/images/root/node/ /
ENV PATH=/usr/local/bin NODE_ENV=production
WORKDIR /tmp
USER 65532:65532

FROM base AS operator
LABEL org.opencontainers.image.title="The operator of Tollway, and its command line" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/out/images/root/operator/ /
ENV MALLOC_ARENA_MAX=1
EXPOSE 8000 18000
ENTRYPOINT ["/usr/local/bin/node","--max-semi-space-size=4","--heap-growing-percent=100","/usr/local/bin/tollway"]
CMD ["operator"]

FROM base AS ratelimit
LABEL org.opencontainers.image.title="The rate limit service of Tollway" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/out/images/root/ratelimit/ /
ENV MALLOC_ARENA_MAX=1
EXPOSE 6070 8080 8081 9090
ENTRYPOINT ["/usr/local/bin/node","--max-semi-space-size=4","--no-parallel-scavenge","--no-allocation-site-pretenuring","--heap-growing-percent=50","/usr/local/bin/ratelimit"]

FROM base AS broker
LABEL org.opencontainers.image.title="The broker of animation streams of Tollway" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/out/images/root/broker/ /
EXPOSE 6072 8082 9090
ENTRYPOINT ["/usr/local/bin/node","--max-semi-space-size=16","--no-memory-reducer","--heap-growing-percent=100","/usr/local/bin/broker"]

FROM base AS payments
LABEL org.opencontainers.image.title="The payments service of Tollway" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/out/images/root/payments/ /
EXPOSE 6073 8090 8091
ENTRYPOINT ["/usr/local/bin/payments"]
