# ELE on the CPU, in a slim image:
#   docker build --tag ele .
#   docker run --rm --volume "$PWD:/data" ele train number-words -o run
# --build-arg EXTRAS=molecules,figures installs these extras only.
FROM python:3.12-slim

ARG EXTRAS=full,qm9
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY ele_core ele_core
COPY ele_graphs ele_graphs
COPY ele_sequences ele_sequences
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu \
        "torch==$(sed -n 's/^torch==//p' constraints.txt)+cpu" ".[$EXTRAS]" \
    && rm -rf /source

WORKDIR /data
ENTRYPOINT ["ele"]
CMD ["--help"]
