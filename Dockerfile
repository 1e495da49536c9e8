# Debian 13 has bubblewrap 0.12 or newer and git; the bot runs as an ordinary user.
FROM debian:trixie-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip python3-venv ca-certificates \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
RUN python3 -m pip install --break-system-packages --no-cache-dir uv
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY bot ./bot
COPY webhooks ./webhooks
COPY workspace ./workspace
RUN UV_PROJECT_ENVIRONMENT=/opt/ultracode uv sync --frozen --no-dev --no-editable

FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 git bubblewrap ca-certificates util-linux \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --home-dir /var/lib/ultracode --shell /usr/sbin/nologin ultracode
COPY --from=build /opt/ultracode /opt/ultracode
ENV PATH=/opt/ultracode/bin:$PATH ULTRACODE_DATA_DIR=/var/lib/ultracode
USER ultracode
WORKDIR /var/lib/ultracode
EXPOSE 8000
ENTRYPOINT ["ultracode"]
CMD ["serve", "--host", "0.0.0.0"]
